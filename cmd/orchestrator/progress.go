package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// redraw is how often a progress bar is drawn: as often as an eye can follow
// figures, and not at all for what takes less.
const redraw = 100 * time.Millisecond

// A progress counts what is written to it, and shows it on a terminal.
type progress struct {
	to    io.Writer // nil shows nothing
	name  string
	total int64 // negative if it is not known
	begin time.Time

	mu    sync.Mutex
	n     int64
	drawn time.Time
	shown bool
}

// progress begins to show the progress of what has this name, if standard
// error is a terminal.
func (a *app) progress(name string, total int64) *progress {
	now := time.Now()
	p := &progress{name: printable(name), total: total, begin: now, drawn: now}
	if file, ok := a.err.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.to = file
	}
	return p
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += int64(len(b))
	if now := time.Now(); p.to != nil && now.Sub(p.drawn) >= redraw {
		p.drawn, p.shown = now, true
		fmt.Fprintf(p.to, "\r%s\x1b[K", progressLine(p.name, p.n, p.total, now.Sub(p.begin)))
	}
	return len(b), nil
}

// end clears what was shown.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
	p.to = nil
}

// progressLine returns a line of less than 80 columns.
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
