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

// The synopses and descriptions of the verbs.
const (
	grepUsage = `grep [flags] PATTERN [PATH...]

Prints the lines that match a regular expression (RE2 syntax). It skips hidden files,
binary files, and files that .gitignore files and the like exclude. At the end it lists
what it could not search. The exit status is 0 if a line matches, 1 if none does, and 2 if
anything but a binary file could not be searched.`
	globUsage = `glob [flags] PATTERN

Prints the paths that match a pattern such as '**/*.{go,mod}'. At the end it lists the
directories that it could not search. The exit status is 0 if a path matches, 1 if none
does, and 2 if there were such directories.`
)

// grep searches the local files as the agent would for a caller.
func grep(ctx context.Context, args []string, stdout io.Writer) error {
	var options render.GrepFlags
	flags := flag.NewFlagSet("grep", flag.ContinueOnError)
	options.Define(searchFlags{flags})
	json := outputFlag(flags)
	args, err := parseMixed(flags, args, grepUsage, stdout)
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
	json := outputFlag(flags)
	args, err := parseMixed(flags, args, globUsage, stdout)
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
	opts := options.Options()
	printer := options.Printer(stdout, os.Stderr, *json, &opts)
	return printer.All(files.Glob(ctx, args[0], opts))
}

// searchOnce makes the runtime collect garbage seldom. A collection takes as long as
// searching hundreds of files, and the search is over before it pays. The limit keeps
// the memory of a large search from growing on.
func searchOnce() {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(searchMemory)
}

// searchMemory is half of the memory, in bytes, that a search takes at worst.
const searchMemory = 64 << 20

// here returns the local files, as seen from the current directory.
func here() (*fsops.FS, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return fsops.New(dir), nil
}
