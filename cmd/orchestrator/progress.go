package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/podagent/podagent/cmd/internal/render"
)

// A progress counts the bytes written to it, and shows the count on a terminal.
type progress struct {
	to    io.Writer // nil shows nothing
	name  string
	total int64 // negative if unknown
	begin time.Time

	mu    sync.Mutex
	n     int64
	drawn time.Time
	shown bool
}

// progress begins to show the progress of a copy with this name, if standard error is a
// terminal.
func (a *app) progress(name string, total int64) *progress {
	now := time.Now()
	p := &progress{name: render.Terminal(true).Name(name), total: total, begin: now, drawn: now}
	if render.IsTerminal(a.err) {
		p.to = a.err
	}
	return p
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw(p.n + int64(len(b)))
	return len(b), nil
}

// moved shows that this many bytes have moved so far.
func (p *progress) moved(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw(n)
}

func (p *progress) draw(n int64) {
	p.n = n
	if now := time.Now(); p.to != nil && now.Sub(p.drawn) >= redraw {
		p.drawn, p.shown = now, true
		fmt.Fprintf(p.to, "\r%s\x1b[K", progressLine(p.name, p.n, p.total, now.Sub(p.begin)))
	}
}

// clear removes the bar from the terminal. No more is shown.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
	p.to = nil
}

// progressLine returns a line of fewer than 80 columns.
func progressLine(name string, n, total int64, elapsed time.Duration) string {
	const nameWidth, barWidth = 28, 18
	if runes := []rune(name); len(runes) > nameWidth {
		name = "…" + string(runes[len(runes)-nameWidth+1:])
	}
	rate := int64(float64(n) / max(elapsed.Seconds(), 0.001))
	line := fmt.Sprintf("%-*s %10s %10s/s", nameWidth, name, bytesText(n), bytesText(rate))
	if total <= 0 {
		return line
	}
	part := min(float64(n)/float64(total), 1)
	filled := int(part * barWidth)
	return fmt.Sprintf("%s [%s%s] %3.0f%%", line, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), 100*part)
}
