package render

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/podagent/podagent/pkg/fsops"
)

// Glob prints the results of one search for names.
type Glob struct {
	// Out gets the names, Err what could not be read or was left out.
	Out, Err io.Writer
	// JSON prints results as JSON lines.
	JSON bool
	// Null ends each name with a NUL byte instead of a newline.
	Null bool
}

// All prints the results up to the first error, but for directories that
// cannot be read, which are only said. It returns [ErrNothing] if no name was
// found.
func (g *Glob) All(results iter.Seq2[fsops.GlobMatch, error]) error {
	out := bufio.NewWriter(g.Out)
	defer out.Flush()
	p := globPrinter{Glob: g, out: out, terminal: IsTerminal(g.Out)}
	found := false
	for match, err := range results {
		if errors.As(err, new(*fsops.SkippedError)) {
			say(g.Err, err.Error())
			continue
		}
		if err == nil {
			err = p.print(match)
		}
		if err != nil {
			return err
		}
		found = found || !match.Truncated
	}
	return orNothing(found, out.Flush())
}

// A globPrinter prints single results.
type globPrinter struct {
	*Glob
	out      io.Writer
	terminal Terminal
}

func (p globPrinter) print(m fsops.GlobMatch) error {
	switch {
	case p.JSON && m.Truncated:
		return JSON(p.out, map[string]bool{"truncated": true})
	case p.JSON:
		return JSON(p.out, struct {
			Path Text   `json:"path"`
			Type string `json:"type"`
		}{Text(m.Path), TypeName(m.Type)})
	case m.Truncated:
		say(p.Err, "the limit was reached: more names were left out")
		return nil
	case p.Null:
		_, err := fmt.Fprintf(p.out, "%s\x00", p.terminal.Name(m.Path))
		return err
	}
	_, err := fmt.Fprintln(p.out, p.terminal.Name(m.Path))
	return err
}
