package e2b

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// The messages of filesystem.Filesystem, in JSON: what is zero may be missing, and numbers of 64 bits
// are strings.
type (
	pathRequest struct {
		Path string `json:"path"`
	}
	moveRequest struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	listRequest struct {
		Path  string `json:"path"`
		Depth uint32 `json:"depth"`
	}
	entryResponse struct {
		Entry *entryInfo `json:"entry"`
	}
	listResponse struct {
		Entries []*entryInfo `json:"entries,omitempty"`
	}
)

// absolute returns the path that a caller means, as the answers have it: absolute, and without "." and
// "..".
func absolute(s *launcher.Sandbox, name string) (string, error) {
	switch {
	case name == "~" || strings.HasPrefix(name, "~/"):
		return "", faces.BadRequest("%q: ~ is not known here: a path is absolute, or begins in the working directory", name)
	case path.IsAbs(name):
		return path.Clean(name), nil
	}
	return path.Join(s.Workdir, name), nil
}

func statEntry(ctx context.Context, s *launcher.Sandbox, in *pathRequest) (*entryResponse, error) {
	name, err := absolute(s, in.Path)
	if err != nil {
		return nil, err
	}
	return entryAt(ctx, s, name)
}

func entryAt(ctx context.Context, s *launcher.Sandbox, name string) (*entryResponse, error) {
	a, err := s.Lstat(ctx, name)
	if err != nil {
		return nil, err
	}
	a.Path = name
	entry, err := entryOf(ctx, s, a)
	return &entryResponse{entry}, err
}

// makeDir makes a directory with those above it. If it is there, the SDKs say so by false.
func makeDir(ctx context.Context, s *launcher.Sandbox, in *pathRequest) (*entryResponse, error) {
	name, err := absolute(s, in.Path)
	if err != nil {
		return nil, err
	}
	err = s.Mkdir(ctx, name, dirMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.MkdirAll(ctx, path.Dir(name), dirMode); err == nil {
			err = s.Mkdir(ctx, name, dirMode)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		if a, statErr := s.Stat(ctx, name); statErr == nil && !a.IsDir() {
			return nil, faces.BadRequest("%s is there, and no directory", name)
		}
	}
	if err != nil {
		return nil, err
	}
	return entryAt(ctx, s, name)
}

// move renames a file or a directory. It makes the directories above the new name.
func move(ctx context.Context, s *launcher.Sandbox, in *moveRequest) (*entryResponse, error) {
	source, err := absolute(s, in.Source)
	if err != nil {
		return nil, err
	}
	target, err := absolute(s, in.Destination)
	if err != nil {
		return nil, err
	}
	err = s.Rename(ctx, source, target)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := s.Lstat(ctx, source); err != nil {
			return nil, err
		}
		if err := s.MkdirAll(ctx, path.Dir(target), dirMode); err != nil {
			return nil, err
		}
		err = s.Rename(ctx, source, target)
	}
	if err != nil {
		return nil, err
	}
	return entryAt(ctx, s, target)
}

// remove removes a file, or a directory with all that is in it. It is no error if there is none.
func remove(ctx context.Context, s *launcher.Sandbox, in *pathRequest) (*struct{}, error) {
	name, err := absolute(s, in.Path)
	if err != nil {
		return nil, err
	}
	return &struct{}{}, s.RemoveAll(ctx, name)
}

// listDir lists a directory, and those in it down to a depth, each before what is in it. Symbolic links
// in it are not followed.
func listDir(ctx context.Context, s *launcher.Sandbox, in *listRequest) (*listResponse, error) {
	name, err := absolute(s, in.Path)
	if err != nil {
		return nil, err
	}
	l := &lister{sandbox: s, entries: s.List}
	err = l.list(ctx, name, max(in.Depth, 1), 0)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return nil, faces.BadRequest("%s is no directory", name)
	case err != nil:
		return nil, err
	}
	entries, err := l.describe(ctx)
	return &listResponse{entries}, err
}

// lister collects what is in a tree.
type lister struct {
	sandbox *launcher.Sandbox
	entries func(ctx context.Context, dir string, o fsops.ListOptions) iter.Seq2[fsops.Attr, error]
	found   []fsops.Attr
	size    int // in bytes, as the answer has them
}

// list lists a directory to its end before it looks into those in it: what is half read holds memory.
func (l *lister) list(ctx context.Context, dir string, depth, level uint32) error {
	if level == levelsLimit {
		return gateway.Fail(http.StatusConflict, "too_large", fmt.Sprintf("there are more than %d levels: list a directory in it, or fewer levels", levelsLimit))
	}
	var own []fsops.Attr
	for a, err := range l.entries(ctx, dir, fsops.ListOptions{}) {
		if err != nil {
			return err
		}
		if l.size += sizeOf(a); l.size > listLimit {
			return gateway.Fail(http.StatusConflict, "too_large", fmt.Sprintf("there are too many entries, more than %d MiB of them: list a directory in it, or fewer levels", listLimit>>20))
		}
		own = append(own, a)
	}
	for _, a := range own {
		l.found = append(l.found, a)
		if !a.IsDir() || level+1 >= depth {
			continue
		}
		if err := l.list(ctx, a.Path, depth, level+1); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sizeOf returns how much an entry takes of an answer, in bytes: it has the path, the name, and of a link
// where it leads to, which begins with the path if that is relative.
func sizeOf(a fsops.Attr) int {
	size := entrySize + jsonSize(a.Path) + jsonSize(path.Base(a.Path))
	if a.Target != "" {
		size += jsonSize(a.Path) + jsonSize(a.Target)
	}
	return size
}

// jsonSize returns how many bytes a text has in JSON, at most, where it is longest: of control characters.
func jsonSize(s string) int {
	size := len(s)
	for i := range len(s) {
		if s[i] < ' ' {
			size += 5
		}
	}
	return size
}

// describe returns the entries. It looks where links lead to, some at a time.
func (l *lister) describe(ctx context.Context) ([]*entryInfo, error) {
	entries := make([]*entryInfo, len(l.found))
	looks, ctx := errgroup.WithContext(ctx)
	looks.SetLimit(looksAtOnce)
	for i, a := range l.found {
		if a.Mode.Type() != fs.ModeSymlink {
			entries[i] = plainEntry(a)
			continue
		}
		looks.Go(func() (err error) {
			entries[i], err = entryOf(ctx, l.sandbox, a)
			return err
		})
	}
	return entries, looks.Wait()
}
