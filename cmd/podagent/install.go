package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
)

// installedMode lets everybody run the copy, and nobody read it. So nobody without
// privileges can look into a process of it, from its first instruction on (ptrace(2),
// would_dump in the kernel's exec.c).
const installedMode = 0o111

// install copies this program to a directory, for containers whose image lacks it.
func install(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("install", flag.ContinueOnError)
	own := flags.String("dir", "", "first make `DIR`, unless it is there, for everybody to write to")
	synopsis := "install [--dir DIR] DIR\n\nInstall copies this program to DIR/podagent, which can then be run, but not read.\n" +
		"It makes DIR if it is missing."
	if err := parse(flags, args, synopsis, stdout); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return usageError{errors.New("install needs one directory: see podagent install --help")}
	}
	dir, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	files := fsops.New(dir)
	if err := files.Mkdir(dir, fsops.MkdirOptions{Parents: true}); err != nil {
		return err
	}
	if err := makeWritable(files, *own); err != nil {
		return err
	}
	// An existing file is replaced. If it is a link, the file that it names stays.
	installed := filepath.Join(dir, "podagent")
	if err := files.Remove(ctx, installed, fsops.RemoveOptions{Force: true}); err != nil {
		return err
	}
	if err := files.Copy(ctx, program, installed, fsops.CopyOptions{NoReplace: true}); err != nil {
		return err
	}
	return files.Chmod(installed, installedMode)
}

// makeWritable makes a directory, if one is named and it is missing. As the root of a volume, it is for
// everybody: the sandbox's image may have another user than this one.
func makeWritable(files *fsops.FS, dir string) error {
	if dir == "" {
		return nil
	}
	defer syscall.Umask(syscall.Umask(0)) // a change of its mode would lose that it passes its group on
	err := files.Mkdir(dir, fsops.MkdirOptions{})
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
