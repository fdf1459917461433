package render

import (
	"errors"
	"io"
	"iter"

	"github.com/podagent/podagent/pkg/fsops"
)

// Glob prints the results of one search for names.
type Glob struct {
	// Out gets the names. Err gets notes about what could not be read or was left
	// out.
	Out, Err io.Writer
	// JSON prints results as JSON lines.
	JSON bool
	// Null ends each name with a NUL byte instead of a newline.
	Null bool
	// Stats must be the Stats in the search's options.
	Stats fsops.GlobStats
}

// All prints the results up to the first error. Directories that cannot be read are
// only reported on Err, and make it [ErrIncomplete]. It returns [ErrNothing] if no
// name was found.
func (g *Glob) All(results iter.Seq2[fsops.GlobMatch, error]) error {
	terminal := IsTerminal(g.Out)
	p := globPrinter{Glob: g, out: writer{out: g.Out, atOnce: bool(terminal)}, terminal: terminal}
	defer p.out.end()
	found, incomplete := false, false
	for match, err := range results {
		if skipped, ok := errors.AsType[*fsops.SkippedError](err); ok {
			incomplete = saySkipped(g.Err, skipped)
			break
		}
		if err != nil {
			return &SearchError{err}
		}
		if err := p.print(match); err != nil {
			return err
		}
		found = true
	}
	if err := p.sayTruncated(); err != nil {
		return err
	}
	if err := p.out.end(); err != nil {
		return err
	}
	return ended(found, !incomplete)
}

// A globPrinter prints single results.
type globPrinter struct {
	*Glob
	out      writer
	terminal Terminal
}

func (p *globPrinter) print(m fsops.GlobMatch) error {
	if p.JSON {
		return p.out.json(struct {
			Path Text   `json:"path"`
			Type string `json:"type"`
		}{Text(m.Path), fsops.TypeName(m.Type)})
	}
	end := byte('\n')
	if p.Null {
		end = 0
	}
	return p.out.print(func(text []byte) []byte {
		return append(append(text, p.terminal.Name(m.Path)...), end)
	})
}

// sayTruncated says so if there are more names.
func (p *globPrinter) sayTruncated() error {
	switch {
	case !p.Stats.Truncated:
	case p.JSON:
		return p.out.json(map[string]bool{"truncated": true})
	default:
		say(p.Err, "the limit was reached: more names were left out")
	}
	return nil
}
