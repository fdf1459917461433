package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
)

// The sizes in the picture, in pixels.
const (
	pictureWidth = 940
	labelWidth   = 480
	valueWidth   = 70
	lineHeight   = 17
	margin       = 14
)

// pictureStyle has colours for light and dark pages.
const pictureStyle = `<style>
text{fill:#24292f} .g{font-weight:bold} .z{stroke:#8c959f} .win{fill:#2a8f5b} .lose{fill:#c2543c} .aim{stroke:#24292f;stroke-width:2}
@media (prefers-color-scheme: dark){text{fill:#d1d7e0} .win{fill:#4cc38a} .lose{fill:#ee7b62} .aim{stroke:#d1d7e0}}
</style>`

// writePicture draws, as SVG, how many times better or worse podagent is than each
// peer, on a logarithmic scale with a mark at each target. Limits that are met are
// only in the tables.
func (r *report) writePicture(w io.Writer) error {
	p := &picture{w: w, y: margin + lineHeight, scale: (pictureWidth - labelWidth - valueWidth - 2*margin) / math.Log(r.span())}
	p.least = r.least()
	height := 2*margin + lineHeight*(1+r.lines())
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n%s\n", pictureWidth, height, pictureStyle)
	p.printf(`<text x="%.0f" y="%d" text-anchor="end">worse</text><text x="%.0f" y="%d">better than the peer</text>`+"\n", p.x(1)-6, margin+4, p.x(1)+6, margin+4)
	group := ""
	for _, row := range r.Rows {
		if row.Group != group {
			group = row.Group
			p.printf(`<text class="g" x="%d" y="%d">%s</text>`+"\n", margin, p.y+14, html.EscapeString(group))
			p.y += lineHeight
		}
		for _, peer := range row.drawn() {
			p.bar(row.What, &peer)
		}
	}
	p.printf(`<line class="z" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n</svg>\n", p.x(1), margin+8, p.x(1), p.y)
	return p.err
}

// lines returns the number of lines of the picture: one for each group and each
// peer.
func (r *report) lines() int {
	lines, group := 0, ""
	for _, row := range r.Rows {
		if row.Group != group {
			group = row.Group
			lines++
		}
		lines += len(row.drawn())
	}
	return lines
}

// drawn returns the measured peers, and the limits that are missed.
func (r *row) drawn() []peer {
	return slices.DeleteFunc(slices.Clone(r.Peers), func(p peer) bool { return p.Count == 0 && !p.missed() })
}

// least returns the start of the scale, and span the ratio of its end to its start.
func (r *report) least() float64 {
	least := 0.5
	for _, row := range r.Rows {
		for _, p := range row.drawn() {
			least = min(least, p.Better)
		}
	}
	return least
}

func (r *report) span() float64 {
	most := 2.0
	for _, row := range r.Rows {
		for _, p := range row.drawn() {
			most = max(most, p.Better, p.Target)
		}
	}
	return most / r.least()
}

type picture struct {
	w     io.Writer
	y     int
	scale float64 // pixels for a factor of e
	least float64
	err   error
}

func (p *picture) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// x returns the position of a factor.
func (p *picture) x(better float64) float64 {
	return labelWidth + margin + math.Log(better/p.least)*p.scale
}

func (p *picture) bar(what string, peer *peer) {
	class, from, to := "win", p.x(1), p.x(peer.Better)
	if peer.Better < 1 {
		class, from, to = "lose", to, from
	}
	p.printf(`<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth, p.y+13, html.EscapeString(what+" / "+peer.Name))
	p.printf(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, class, from, p.y+2, max(to-from, 1), lineHeight-5)
	if peer.Target > 0 {
		p.printf(`<line class="aim" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, p.x(peer.Target), p.y, p.x(peer.Target), p.y+lineHeight-2)
	}
	p.printf(`<text x="%d" y="%d" text-anchor="end">%.2f×</text>`+"\n", pictureWidth-margin, p.y+13, peer.Better)
	p.y += lineHeight
}
