package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func lsCommand(a *app) *cobra.Command {
	var long bool
	var opts fsops.ListOptions
	cmd := &cobra.Command{
		Use:   "ls ID [PATH]",
		Short: "List a directory",
		Long: `Ls lists a directory, hidden files included; without PATH, the workdir. On a
terminal, a name with characters that cannot be printed is shown in quotes. If ls
could not list everything, it says so at the end, and exits with 1.`,
		Args:              takes(1, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 1 {
				dir = args[1]
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.ls(cmd.Context(), sandbox, dir, long, opts)
			})
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "also print mode, owner, size and time")
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "R", false, "list the whole tree")
	return cmd
}

func (a *app) ls(ctx context.Context, sandbox *launcher.Sandbox, dir string, long bool, opts fsops.ListOptions) error {
	out := bufio.NewWriter(a.streams.out)
	failed := false
	for attr, err := range sandbox.List(ctx, dir, opts) {
		skipped, ok := errors.AsType[*fsops.SkippedError](err)
		switch {
		case ok:
			a.noteSkipped(skipped)
			failed = true
			continue
		case errors.Is(err, syscall.ENOTDIR):
			if attr, err = sandbox.Lstat(ctx, dir); err != nil {
				return err
			}
		case err != nil:
			return errors.Join(out.Flush(), err)
		}
		if err := a.entry(out, attr, below(dir, attr.Path), long); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil || !failed {
		return err
	}
	return render.ErrNothing // the failures were reported
}

// noteSkipped reports what could not be listed.
func (a *app) noteSkipped(skipped *fsops.SkippedError) {
	for _, err := range skipped.Errs {
		a.note("%v", err)
	}
	if skipped.More > 0 {
		a.note("and %d more were skipped", skipped.More)
	}
}

// entry prints the entry of one file.
func (a *app) entry(out *bufio.Writer, attr fsops.Attr, name string, long bool) error {
	if a.json() {
		return render.JSON(out, render.NewAttr(attr))
	}
	name = a.terminal.Name(name)
	if !long {
		_, err := fmt.Fprintln(out, name)
		return err
	}
	if attr.Mode.Type() == fs.ModeSymlink {
		name += " -> " + a.terminal.Name(attr.Target)
	}
	_, err := fmt.Fprintf(out, "%s %5d %5d %10d %s %s\n",
		modeText(attr.Mode), attr.UID, attr.GID, attr.Size, attr.ModTime.Format(time.DateTime), name)
	return err
}

// modeText returns a mode as ls(1) prints it.
func modeText(mode fs.FileMode) string {
	letter := map[fs.FileMode]string{
		0: "-", fs.ModeDir: "d", fs.ModeSymlink: "l", fs.ModeNamedPipe: "p", fs.ModeSocket: "s",
		fs.ModeDevice: "b", fs.ModeDevice | fs.ModeCharDevice: "c",
	}[mode.Type()]
	text := []byte(letter + mode.Perm().String()[1:])
	for _, special := range []struct {
		mode fs.FileMode
		at   int
		char byte
	}{{fs.ModeSetuid, 3, 's'}, {fs.ModeSetgid, 6, 's'}, {fs.ModeSticky, 9, 't'}} {
		switch {
		case mode&special.mode == 0:
		case text[special.at] == 'x':
			text[special.at] = special.char
		default:
			text[special.at] = special.char - 'a' + 'A'
		}
	}
	return string(text)
}

// below returns the name of path relative to the listed directory.
func below(dir, path string) string {
	if dir == "." {
		return strings.TrimPrefix(path, "./")
	}
	if name, ok := strings.CutPrefix(path, strings.TrimRight(dir, "/")+"/"); ok {
		return name
	}
	return path
}
