package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func globCommand(a *app) *cobra.Command {
	opts := fsops.GlobOptions{Sort: true}
	cmd := &cobra.Command{
		Use:   "glob ID PATTERN",
		Short: "Find files by their names",
		Long: `Glob prints the names that match a pattern such as '**/*.go' (quote it from the
shell), sorted. The exit status is 1 if there is none.`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.glob(cmd.Context(), sandbox, args[1], opts)
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&opts.Limit, "max", 0, "end after `N` names")
	flags.BoolVar(&opts.Ignore, "ignore", false, "leave out what .gitignore files exclude")
	flags.BoolVar(&opts.NoHidden, "no-hidden", false, "leave out names that begin with a dot")
	flags.StringVarP(&opts.Dir, "directory", "C", "", "start in `DIR`")
	return cmd
}

func (a *app) glob(ctx context.Context, sandbox *launcher.Sandbox, pattern string, opts fsops.GlobOptions) error {
	out := bufio.NewWriter(a.out)
	defer out.Flush()
	printer := &render.Glob{Out: out, Err: a.err, JSON: a.json()}
	found := false
	for match, err := range sandbox.Glob(ctx, pattern, opts) {
		if errors.As(err, new(*fsops.SkippedError)) {
			fmt.Fprintln(a.err, "orchestrator:", err)
			continue
		}
		if err != nil {
			return err
		}
		if err := printer.Print(match); err != nil {
			return err
		}
		found = true
	}
	return orNothing(found, out.Flush())
}

func grepCommand(a *app) *cobra.Command {
	var opts fsops.GrepOptions
	var globs []string
	var lines int
	cmd := &cobra.Command{
		Use:   "grep ID PATTERN [PATH...]",
		Short: "Search files",
		Long: `Grep prints the lines that match a regular expression (RE2 syntax), as ripgrep
does: it skips hidden and binary files and what .gitignore files exclude. The
exit status is 1 if there is none.`,
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Include, opts.Exclude = splitGlobs(globs)
			opts.Before, opts.After, opts.Paths = lines, lines, args[2:]
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.grep(cmd.Context(), sandbox, args[1], opts)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.IgnoreCase, "ignore-case", "i", false, "match letters whatever their case")
	flags.StringArrayVarP(&globs, "glob", "g", nil, "search only files that match `GLOB`, or none that match !GLOB; may be repeated")
	flags.IntVarP(&lines, "context", "C", 0, "print `N` lines of context around each match")
	flags.IntVar(&opts.Limit, "max", 0, "end after `N` matching lines")
	flags.BoolVar(&opts.Hidden, "hidden", false, "search hidden files and directories, too")
	flags.BoolVar(&opts.NoIgnore, "no-ignore", false, "search what .gitignore files exclude, too")
	return cmd
}

// splitGlobs tells the globs apart that begin with an exclamation mark.
func splitGlobs(globs []string) (include, exclude []string) {
	for _, g := range globs {
		if rest, ok := strings.CutPrefix(g, "!"); ok {
			exclude = append(exclude, rest)
		} else {
			include = append(include, g)
		}
	}
	return include, exclude
}

func (a *app) grep(ctx context.Context, sandbox *launcher.Sandbox, pattern string, opts fsops.GrepOptions) error {
	out := bufio.NewWriter(a.out)
	defer out.Flush()
	printer := &render.Grep{Out: out, Err: a.err, JSON: a.json(), Context: opts.Before > 0}
	found := false
	for result, err := range sandbox.Grep(ctx, pattern, opts) {
		if err != nil {
			return err
		}
		if err := printer.Print(result); err != nil {
			return err
		}
		found = found || result.Kind == fsops.GrepMatch
	}
	return orNothing(found, out.Flush())
}

// orNothing returns err, or that nothing was found.
func orNothing(found bool, err error) error {
	if err == nil && !found {
		return errNothing
	}
	return err
}
