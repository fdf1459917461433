package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

// pushFile copies a local file. It reads a pipe or similar file to its end.
func (a *app) pushFile(ctx context.Context, sandbox *launcher.Sandbox, source string, info fs.FileInfo, target string) (fsops.TreeStats, error) {
	file, err := os.Open(source)
	if err != nil {
		return fsops.TreeStats{}, local(err)
	}
	defer file.Close()
	bar := a.progress(source, info.Size())
	defer bar.clear()
	result, err := upload(ctx, sandbox, target, io.TeeReader(file, bar), fsops.WriteOptions{Perm: info.Mode().Perm()})
	if err != nil {
		return fsops.TreeStats{}, err
	}
	if perm := info.Mode().Perm(); result.Created && result.Attr.Mode.Perm() != perm {
		err = sandbox.Chmod(ctx, target, perm)
	}
	return fsops.TreeStats{Entries: 1, Bytes: result.Attr.Size}, err
}

// pullFile copies a file of the sandbox. The copy appears only when it is complete. It has
// no more bytes than the file is said to have, and leaves room on the disk.
func (a *app) pullFile(ctx context.Context, sandbox *launcher.Sandbox, attr fsops.Attr, target string) (fsops.TreeStats, error) {
	perm := attr.Mode.Perm()
	w, err := fsops.New(filepath.Dir(target)).Create(target, fsops.WriteOptions{Perm: perm})
	if err != nil {
		return fsops.TreeStats{}, local(err)
	}
	defer w.Close()
	w.LeaveRoom()
	bar := a.progress(attr.Path, attr.Size)
	defer bar.clear()
	read, err := sandbox.Read(ctx, attr.Path, io.MultiWriter(w, bar), asAnnounced(attr))
	if err != nil {
		return fsops.TreeStats{}, err
	}
	result, err := w.Commit(ctx, read.Sum)
	// Create takes 0 for the default. It applies the umask: other users of this machine
	// do not get what the sandbox gives them.
	if err == nil && result.Created && result.Attr.Mode.Perm()&^perm != 0 {
		err = os.Chmod(target, result.Attr.Mode.Perm()&perm)
	}
	return fsops.TreeStats{Entries: 1, Bytes: read.Sum.Size}, local(err)
}

// asAnnounced selects the bytes that a file is said to have. One without a size, as in
// /proc, is read to its end, which comes after some MiB at most.
func asAnnounced(attr fsops.Attr) fsops.ReadOptions {
	if attr.Size > 0 {
		return fsops.ReadOptions{Length: attr.Size}
	}
	return fsops.ReadOptions{Opened: func(now fsops.Attr) error {
		if now.Size > 0 {
			return fmt.Errorf("%s was empty, and has %d bytes now: copy it again", quote(attr.Path), now.Size)
		}
		return nil
	}}
}
