package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"

	"github.com/podagent/podagent/pkg/fsops"
)

// copyDirs fills directories before a sandbox starts, in images that may have neither a
// shell nor cp.
func copyDirs(ctx context.Context, args []string, stdout io.Writer) error {
	var dirs []string
	flags := flag.NewFlagSet("copy", flag.ContinueOnError)
	flags.Func("dir", "make `DIR` first, with its parents; may be repeated", func(s string) error {
		dirs = append(dirs, s)
		return nil
	})
	synopsis := "copy [--dir DIR]... [FROM TO]...\n\n" +
		"Copy adds the content of each directory FROM to the directory TO: files with their\n" +
		"modes and times, and links as they are. It makes TO if it is missing."
	if err := parse(flags, args, synopsis, stdout); err != nil {
		return err
	}
	if flags.NArg()%2 != 0 {
		return usageError{errors.New("copy needs a directory TO for each directory FROM: see podagent copy --help")}
	}
	workdir, err := os.Getwd()
	if err != nil {
		return err
	}
	files := fsops.New(workdir)
	for _, dir := range dirs {
		if err := files.Mkdir(dir, fsops.MkdirOptions{Parents: true}); err != nil {
			return err
		}
	}
	for pairs := flags.Args(); len(pairs) > 0; pairs = pairs[2:] {
		if err := files.Copy(ctx, pairs[0], pairs[1], fsops.CopyOptions{Recursive: true}); err != nil {
			return err
		}
	}
	return nil
}
