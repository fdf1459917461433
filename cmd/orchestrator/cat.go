package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func catCommand(a *app) *cobra.Command {
	var window string
	cmd := &cobra.Command{
		Use:   "cat ID PATH",
		Short: "Print a file, or some of its lines",
		Long:  "Cat prints a file, or some of its lines.\n\n" + fmt.Sprintf(rawHelp, "cat"),
		Example: `  orchestrator cat job-1 go.mod
  orchestrator cat job-1 main.go --lines 10:40`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := parseWindow(window)
			if err != nil {
				return err
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				if window == "" {
					return a.cat(cmd.Context(), sandbox, args[1])
				}
				return a.catLines(cmd.Context(), sandbox, args[1], opts)
			})
		},
	}
	a.rawFlag(cmd)
	cmd.Flags().StringVar(&window, "lines", "", "print only the lines `A:B`, counted from 1; also A: and :B")
	return cmd
}

// parseWindow parses A:B, A: and :B, where A is the first line and B the last.
func parseWindow(s string) (fsops.LineOptions, error) {
	if s == "" {
		return fsops.LineOptions{}, nil
	}
	from, to, ok := strings.Cut(s, ":")
	if !ok || from == "" && to == "" {
		return fsops.LineOptions{}, usagef("invalid --lines %q: it must be A:B, A: or :B", s)
	}
	first, err := lineNumber(from, 1)
	if err != nil {
		return fsops.LineOptions{}, usagef("invalid --lines %q: %q is not a line number", s, from)
	}
	last, err := lineNumber(to, 0)
	if err != nil {
		return fsops.LineOptions{}, usagef("invalid --lines %q: %q is not a line number", s, to)
	}
	if to != "" && last < first {
		return fsops.LineOptions{}, usagef("invalid --lines %q: the last line is before the first", s)
	}
	opts := fsops.LineOptions{First: first}
	if to != "" {
		opts.Max = last - first + 1
	}
	return opts, nil
}

func lineNumber(s string, missing int64) (int64, error) {
	if s == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n < 1 {
		err = strconv.ErrRange
	}
	return n, err
}

func (a *app) cat(ctx context.Context, sandbox *launcher.Sandbox, path string) error {
	if !a.json() {
		out, end := render.ProgramText(a.out, a.raw)
		_, err := sandbox.Read(ctx, path, out, fsops.ReadOptions{})
		return errors.Join(err, end())
	}
	var content bytes.Buffer
	result, err := sandbox.Read(ctx, path, &content, fsops.ReadOptions{})
	if err != nil {
		return err
	}
	return render.JSON(a.out, struct {
		render.Attr
		Data render.Text `json:"data"`
	}{render.NewAttr(result.Attr), content.Bytes()})
}

// catLines prints a window of lines. As text it prints the whole window, in pieces
// if it exceeds the limit of one answer; as JSON it prints one answer.
func (a *app) catLines(ctx context.Context, sandbox *launcher.Sandbox, path string, opts fsops.LineOptions) error {
	out, end := render.ProgramText(a.out, a.raw)
	return errors.Join(a.catLinesTo(ctx, sandbox, path, opts, out), end())
}

func (a *app) catLinesTo(ctx context.Context, sandbox *launcher.Sandbox, path string, opts fsops.LineOptions, out io.Writer) error {
	for {
		lines, err := sandbox.ReadLines(ctx, path, opts)
		if err != nil {
			return err
		}
		if a.json() {
			return a.linesJSON(lines)
		}
		if _, err := out.Write(lines.Text); err != nil {
			return err
		}
		if !lines.Truncated || lines.Count == 0 {
			return nil
		}
		if lines.CutLine {
			last := lines.First + lines.Count - 1
			a.note("line %d is too long and was cut: cat without --lines prints all of it", last)
		}
		opts.First += lines.Count
		if opts.Max > 0 {
			if opts.Max -= lines.Count; opts.Max == 0 {
				return nil
			}
		}
	}
}

func (a *app) linesJSON(lines fsops.Lines) error {
	return render.JSON(a.out, struct {
		render.Attr
		First     int64       `json:"first_line"`
		Count     int64       `json:"lines"`
		Total     int64       `json:"total_lines"`
		Truncated bool        `json:"truncated"`
		CutLine   bool        `json:"cut_line"`
		Data      render.Text `json:"data"`
	}{render.NewAttr(lines.Attr), lines.First, lines.Count, lines.Total, lines.Truncated, lines.CutLine, lines.Text})
}
