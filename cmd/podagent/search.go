package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
)

// grep searches the local files as the agent would for a caller.
func grep(ctx context.Context, args []string, stdout io.Writer) error {
	var opts fsops.GrepOptions
	flags := flag.NewFlagSet("grep", flag.ContinueOnError)
	flags.BoolVar(&opts.IgnoreCase, "i", false, "match letters whatever their case")
	flags.BoolVar(&opts.Hidden, "hidden", false, "search hidden files and directories, too")
	flags.BoolVar(&opts.NoIgnore, "no-ignore", false, "search what .gitignore files exclude, too")
	flags.Func("g", "search only files that match `GLOB`, or none that match !GLOB; may be repeated", func(s string) error {
		if len(s) > 1 && s[0] == '!' {
			opts.Exclude = append(opts.Exclude, s[1:])
		} else {
			opts.Include = append(opts.Include, s)
		}
		return nil
	})
	lines := flags.Int("C", 0, "print `N` lines of context around each match")
	flags.IntVar(&opts.Limit, "max", 0, "end after `N` matching lines")
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
	out := bufio.NewWriter(stdout)
	defer out.Flush()
	printer := &render.Grep{Out: out, Err: os.Stderr, JSON: *json, Context: *lines > 0}
	var found int64
	for result, err := range files.Grep(ctx, flags.Arg(0), opts) {
		if err != nil {
			return err
		}
		if err := printer.Print(result); err != nil {
			return err
		}
		found = result.Stats.Matches
	}
	return orNothing(found, out.Flush())
}

// glob finds local files as the agent would for a caller.
func glob(ctx context.Context, args []string, stdout io.Writer) error {
	opts := fsops.GlobOptions{Sort: true}
	flags := flag.NewFlagSet("glob", flag.ContinueOnError)
	flags.BoolVar(&opts.Ignore, "ignore", false, "leave out what .gitignore files exclude")
	flags.BoolVar(&opts.NoHidden, "no-hidden", false, "leave out names that begin with a dot")
	flags.IntVar(&opts.Limit, "max", 0, "end after `N` names")
	flags.StringVar(&opts.Dir, "C", "", "start in `DIR`")
	null := flags.Bool("0", false, "end names with NUL instead of newline")
	json := flags.Bool("json", false, "print JSON lines")
	if err := parse(flags, args, "glob [flags] PATTERN", stdout); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return usageError{errors.New("glob needs one pattern, quoted from the shell: podagent glob PATTERN")}
	}
	files, err := here()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	defer out.Flush()
	printer := &render.Glob{Out: out, Err: os.Stderr, JSON: *json, Null: *null}
	var found int64
	for match, err := range files.Glob(ctx, flags.Arg(0), opts) {
		if errors.As(err, new(*fsops.SkippedError)) {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		if err != nil {
			return err
		}
		if err := printer.Print(match); err != nil {
			return err
		}
		found++
	}
	return orNothing(found, out.Flush())
}

// here returns the local files, as seen from the current directory.
func here() (*fsops.FS, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return fsops.New(dir), nil
}

// orNothing returns err, or that nothing was found.
func orNothing(found int64, err error) error {
	if err == nil && found == 0 {
		return errNothing
	}
	return err
}
