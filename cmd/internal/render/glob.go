package render

import (
	"fmt"
	"io"

	"github.com/podagent/podagent/pkg/fsops"
)

// Glob prints the results of one search for names.
type Glob struct {
	// Out gets the names, Err that some were left out.
	Out, Err io.Writer
	// JSON prints results as JSON lines.
	JSON bool
	// Null ends each name with a NUL byte instead of a newline.
	Null bool
}

// Print prints one result.
func (g *Glob) Print(m fsops.GlobMatch) error {
	switch {
	case g.JSON && m.Truncated:
		return JSON(g.Out, map[string]bool{"truncated": true})
	case g.JSON:
		return JSON(g.Out, struct {
			Path Text   `json:"path"`
			Type string `json:"type"`
		}{Text(m.Path), TypeName(m.Type)})
	case m.Truncated:
		_, err := fmt.Fprintln(g.Err, "the limit was reached: more names were left out")
		return err
	case g.Null:
		_, err := fmt.Fprintf(g.Out, "%s\x00", m.Path)
		return err
	}
	_, err := fmt.Fprintln(g.Out, m.Path)
	return err
}
