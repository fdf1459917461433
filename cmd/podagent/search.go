package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"runtime/debug"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
)

// grep searches the local files as the agent would for a caller.
func grep(ctx context.Context, args []string, stdout io.Writer) error {
	var options render.GrepFlags
	flags := flag.NewFlagSet("grep", flag.ContinueOnError)
	options.Define(searchFlags{flags})
	json := flags.Bool("json", false, "print JSON lines")
	args, err := parseMixed(flags, args, "grep [flags] PATTERN [PATH...]", stdout)
	if err != nil {
		return err
	}
	pattern, opts, err := options.Search(args)
	if err != nil {
		return usageError{errors.New(err.Error() + ": podagent grep PATTERN [PATH...]")}
	}
	files, err := here()
	if err != nil {
		return err
	}
	searchOnce()
	printer := options.Printer(stdout, os.Stderr, *json, &opts)
	return printer.All(files.Grep(ctx, pattern, opts))
}

// glob finds local files as the agent would for a caller.
func glob(ctx context.Context, args []string, stdout io.Writer) error {
	var options render.GlobFlags
	flags := flag.NewFlagSet("glob", flag.ContinueOnError)
	options.Define(searchFlags{flags})
	json := flags.Bool("json", false, "print JSON lines")
	args, err := parseMixed(flags, args, "glob [flags] PATTERN", stdout)
	if err != nil {
		return err
	}
	if len(args) != 1 {
		return usageError{errors.New("glob needs exactly one pattern, in quotes so that the shell leaves it alone: podagent glob 'PATTERN'")}
	}
	files, err := here()
	if err != nil {
		return err
	}
	searchOnce()
	printer := options.Printer(stdout, os.Stderr, *json)
	return printer.All(files.Glob(ctx, args[0], options.Options()))
}

// searchOnce has the runtime collect garbage seldom: a search is over before
// that pays, and a collection takes as long as it searches hundreds of files.
// The limit keeps a large one from growing on.
func searchOnce() {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(searchMemory)
}

// searchMemory is half of what a search takes at most in the worst case.
const searchMemory = 64 << 20

// here returns the local files, as seen from the current directory.
func here() (*fsops.FS, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return fsops.New(dir), nil
}
