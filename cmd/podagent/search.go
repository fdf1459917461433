package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
)

// grep searches the local files as the agent would for a caller.
func grep(ctx context.Context, args []string, stdout io.Writer) error {
	var opts fsops.GrepOptions
	flags := flag.NewFlagSet("grep", flag.ContinueOnError)
	flags.BoolVar(&opts.IgnoreCase, "i", false, "ignore the case of letters")
	flags.BoolVar(&opts.Hidden, "hidden", false, "also search hidden files and directories")
	flags.BoolVar(&opts.NoIgnore, "no-ignore", false, "also search what .gitignore files exclude")
	flags.Var((*render.Globs)(&opts), "g", "search only files that match `GLOB`, or skip those that match !GLOB; may be repeated")
	lines := flags.Int("C", 0, "print `N` lines of context around each match")
	flags.IntVar(&opts.Limit, "max", 0, "stop after `N` matching lines")
	json := flags.Bool("json", false, "print JSON lines")
	if err := parse(flags, args, "grep [flags] PATTERN [PATH...]", stdout); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return usageError{errors.New("grep needs a pattern: podagent grep PATTERN [PATH...]")}
	}
	opts.Before, opts.After, opts.Paths = *lines, *lines, flags.Args()[1:]
	files, err := here()
	if err != nil {
		return err
	}
	printer := &render.Grep{Out: stdout, Err: os.Stderr, JSON: *json, Context: *lines > 0}
	return printer.All(files.Grep(ctx, flags.Arg(0), opts))
}

// glob finds local files as the agent would for a caller.
func glob(ctx context.Context, args []string, stdout io.Writer) error {
	opts := fsops.GlobOptions{Sort: true}
	flags := flag.NewFlagSet("glob", flag.ContinueOnError)
	flags.BoolVar(&opts.Ignore, "ignore", false, "leave out what .gitignore files exclude")
	flags.BoolVar(&opts.NoHidden, "no-hidden", false, "leave out names that begin with a dot")
	flags.IntVar(&opts.Limit, "max", 0, "stop after `N` names")
	flags.StringVar(&opts.Dir, "C", "", "start in `DIR`")
	null := flags.Bool("0", false, "end names with NUL instead of a newline")
	json := flags.Bool("json", false, "print JSON lines")
	if err := parse(flags, args, "glob [flags] PATTERN", stdout); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return usageError{errors.New("glob needs exactly one pattern, in quotes so that the shell leaves it alone: podagent glob 'PATTERN'")}
	}
	files, err := here()
	if err != nil {
		return err
	}
	printer := &render.Glob{Out: stdout, Err: os.Stderr, JSON: *json, Null: *null}
	return printer.All(files.Glob(ctx, flags.Arg(0), opts))
}

// here returns the local files, as seen from the current directory.
func here() (*fsops.FS, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return fsops.New(dir), nil
}
