//go:build unix

package fsops

import (
	"context"
	"errors"
	"io"
	"iter"
	"syscall"
	"testing"
)

// lastError returns the error that ends the iteration.
func lastError[T any](results iter.Seq2[T, error]) (last error) {
	for _, err := range results {
		last = err
	}
	return last
}

func TestEndOfContextIsNamed(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/file")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantPathError(t, lastError(f.Glob(ctx, "dir/*", GlobOptions{})), "glob", "dir/*", context.Canceled)
	wantPathError(t, lastError(f.Grep(ctx, "fi.e", GrepOptions{})), "grep", "fi.e", context.Canceled)
	wantPathError(t, lastError(f.List(ctx, "dir", ListOptions{})), "readdir", "dir", context.Canceled)
	for _, recursive := range []bool{false, true} {
		wantPathError(t, lastError(f.Watch(ctx, "dir", WatchOptions{Recursive: recursive})), "watch", "dir", context.Canceled)
	}
	for _, name := range []string{"dir", "dir/file"} {
		_, err := f.Archive(ctx, name, io.Discard, ArchiveOptions{})
		wantPathError(t, err, "archive", name, context.Canceled)
	}
}

func TestInvalidGlobsOfOptionsAreNamed(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/file")
	_, archiveErr := f.Archive(t.Context(), "dir", io.Discard, ArchiveOptions{Exclude: []string{"[a"}})
	wantPathError(t, archiveErr, "archive", "dir", syscall.EINVAL)
	includeErr := lastError(f.Grep(t.Context(), "x", GrepOptions{Include: []string{"[a"}}))
	wantPathError(t, includeErr, "grep", "x", syscall.EINVAL)
	excludeErr := lastError(f.Grep(t.Context(), "x", GrepOptions{Exclude: []string{"[a"}}))
	wantPathError(t, excludeErr, "grep", "x", syscall.EINVAL)
	for _, err := range []error{archiveErr, includeErr, excludeErr} {
		var bad *PatternError
		if !errors.As(err, &bad) || bad.Pattern != "[a" {
			t.Errorf("error %v does not wrap the pattern's", err)
		}
	}
}

func TestNegativeNumbersAreInvalid(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "text\n")
	wantPathError(t, lastError(f.Glob(t.Context(), "*", GlobOptions{Limit: -1})), "glob", "*", syscall.EINVAL)
	for _, opts := range []GrepOptions{{Limit: -1}, {MaxPerFile: -1}, {Before: -1}, {After: -1}} {
		wantPathError(t, lastError(f.Grep(t.Context(), "x", opts)), "grep", "x", syscall.EINVAL)
	}
	for _, opts := range []LineOptions{{First: -1}, {Max: -1}, {MaxBytes: -1}} {
		_, err := f.ReadLines(t.Context(), "file", opts)
		wantPathError(t, err, "read", "file", syscall.EINVAL)
	}
}
