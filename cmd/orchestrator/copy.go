package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

// pushFile copies a local file. What is no regular file, such as a pipe, is
// read to its end.
func (a *app) pushFile(ctx context.Context, sandbox *launcher.Sandbox, source string, info fs.FileInfo, target string) (fsops.TreeStats, error) {
	file, err := os.Open(source)
	if err != nil {
		return fsops.TreeStats{}, err
	}
	defer file.Close()
	bar := a.progress(source, info.Size())
	defer bar.end()
	result, err := upload(ctx, sandbox, target, io.TeeReader(file, bar), fsops.WriteOptions{Perm: info.Mode().Perm()})
	if err != nil {
		return fsops.TreeStats{}, err
	}
	if perm := info.Mode().Perm(); result.Created && result.Attr.Mode.Perm() != perm {
		err = sandbox.Chmod(ctx, target, perm)
	}
	return fsops.TreeStats{Entries: 1, Bytes: result.Attr.Size}, err
}

// pullFile copies a file of the sandbox, which appears here when it is whole.
func (a *app) pullFile(ctx context.Context, sandbox *launcher.Sandbox, attr fsops.Attr, target string) (fsops.TreeStats, error) {
	perm := attr.Mode.Perm()
	w, err := fsops.New(filepath.Dir(target)).Create(target, fsops.WriteOptions{Perm: perm})
	if err != nil {
		return fsops.TreeStats{}, err
	}
	defer w.Close()
	bar := a.progress(attr.Path, attr.Size)
	defer bar.end()
	read, err := sandbox.Read(ctx, attr.Path, fsops.ReadOptions{}, io.MultiWriter(w, bar))
	if err != nil {
		return fsops.TreeStats{}, err
	}
	result, err := w.Commit(ctx, read.Sum)
	if err == nil && result.Created && result.Attr.Mode.Perm() != perm {
		err = os.Chmod(target, perm)
	}
	return fsops.TreeStats{Entries: 1, Bytes: read.Sum.Size}, err
}

// pushTree copies what is in a local directory.
func (a *app) pushTree(ctx context.Context, sandbox *launcher.Sandbox, source, target string, opts fsops.ArchiveOptions) (fsops.TreeStats, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return fsops.TreeStats{}, err
	}
	bar := a.progress(source, -1)
	defer bar.end()
	type outcome struct {
		stats fsops.TreeStats
		err   error
	}
	r, w := io.Pipe()
	done := make(chan outcome, 1)
	go func() {
		stats, err := fsops.New(source).Archive(ctx, source, w, opts)
		w.CloseWithError(err)
		done <- outcome{stats, err}
	}()
	stats, err := sandbox.PushTar(ctx, io.TeeReader(r, bar), target)
	r.CloseWithError(err)
	sent := <-done
	stats.Skipped += sent.stats.Skipped
	return stats, err
}

// pullTree copies what is in a directory of the sandbox.
func (a *app) pullTree(ctx context.Context, sandbox *launcher.Sandbox, source, target string, opts fsops.ArchiveOptions) (fsops.TreeStats, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bar := a.progress(source, -1)
	defer bar.end()
	type outcome struct {
		stats fsops.TreeStats
		err   error
	}
	r, w := io.Pipe()
	done := make(chan outcome, 1)
	go func() {
		stats, err := sandbox.PullTar(ctx, source, io.MultiWriter(w, bar), opts)
		w.CloseWithError(err)
		done <- outcome{stats, err}
	}()
	stats, err := fsops.New(target).Extract(ctx, target, r, fsops.ExtractOptions{})
	r.CloseWithError(err)
	if err != nil {
		cancel()
	}
	sent := <-done
	stats.Skipped += sent.stats.Skipped
	if err == nil {
		err = sent.err
	}
	return stats, err
}
