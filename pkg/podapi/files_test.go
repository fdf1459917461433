package podapi_test

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestWriteFileGivesANewFileItsModeAndLeavesThatOfAnOldOne(t *testing.T) {
	s := launchertest.Sandbox(t)
	for _, perm := range []fs.FileMode{0o600, 0o644} {
		if err := s.WriteFile(t.Context(), "file", []byte(perm.String()), perm); err != nil {
			t.Fatal(err)
		}
		attr, err := s.Stat(t.Context(), "file")
		if err != nil || attr.Mode != 0o600 {
			t.Errorf("written with mode %v the file has %v, %v", perm, attr.Mode, err)
		}
		if got, err := s.ReadFile(t.Context(), "file"); string(got) != perm.String() || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestWriteOfAReaderThatFailsLeavesTheFile(t *testing.T) {
	s := launchertest.Sandbox(t)
	if err := s.WriteFile(t.Context(), "file", []byte("old"), 0); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the source has broken")
	r := io.MultiReader(strings.NewReader("new"), iotest.ErrReader(broken))
	if _, err := s.Write(t.Context(), "file", r, fsops.WriteOptions{}); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if got, err := s.ReadFile(t.Context(), "file"); string(got) != "old" || err != nil {
		t.Errorf("the file has %q, %v", got, err)
	}
	result, err := s.Write(t.Context(), "dir/file", strings.NewReader("new"), fsops.WriteOptions{Parents: true})
	if err != nil || !result.Created || result.Attr.Size != 3 {
		t.Errorf("the write of another gives %+v, %v", result, err)
	}
}

func TestDirectoriesAreMadeAndRemovedAsByPackageOS(t *testing.T) {
	s := launchertest.Sandbox(t)
	ctx := t.Context()
	for _, step := range []struct {
		what string
		err  error
		want error
	}{
		{"mkdir without a parent", s.Mkdir(ctx, "a/b", 0o777), fs.ErrNotExist},
		{"mkdir with its parents", s.MkdirAll(ctx, "a/b", 0o700), nil},
		{"mkdir of one that is there", s.Mkdir(ctx, "a/b", 0o777), fs.ErrExist},
		{"the same with its parents", s.MkdirAll(ctx, "a/b", 0o777), nil},
		{"mkdir of another", s.Mkdir(ctx, "c", 0o777), nil},
		{"rename over it", s.RenameNoReplace(ctx, "a", "c"), fs.ErrExist},
		{"rename", s.RenameNoReplace(ctx, "a", "d"), nil},
		{"removal of one that is not empty", s.Remove(ctx, "d"), syscall.ENOTEMPTY},
		{"removal of an empty one", s.Remove(ctx, "d/b"), nil},
		{"removal of nothing", s.Remove(ctx, "d/b"), fs.ErrNotExist},
		{"removal of a tree", s.RemoveAll(ctx, "d"), nil},
		{"removal of no tree", s.RemoveAll(ctx, "d"), nil},
	} {
		if !errors.Is(step.err, step.want) {
			t.Errorf("%s: %v, want %v", step.what, step.err, step.want)
		}
	}
}

func TestDirectoriesAndLinksAreReadAsByPackageOS(t *testing.T) {
	s := launchertest.Sandbox(t)
	ctx := t.Context()
	for _, step := range []error{
		s.MkdirAll(ctx, "d/b", 0o777), s.Symlink(ctx, "no where", "d/link"), s.WriteFile(ctx, "d/a", nil, 0), s.Chmod(ctx, "d/b", 0),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	entries, err := s.ReadDir(ctx, "d")
	var names []string
	for _, e := range entries {
		names = append(names, e.Path)
	}
	if want := []string{"d/a", "d/b", "d/link"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the entries are %q, %v", names, err)
	}
	if target, err := s.Readlink(ctx, "d/link"); target != "no where" || err != nil {
		t.Errorf("the link names %q, %v", target, err)
	}
	_, ofFile := s.Readlink(ctx, "d/a")
	_, ofNothing := s.Readlink(ctx, "d/c")
	_, notThere := s.ReadDir(ctx, "d/c")
	_, notADirectory := s.ReadDir(ctx, "d/a")
	for want, err := range map[error]error{syscall.EINVAL: ofFile, syscall.ENOTDIR: notADirectory} {
		if !errors.Is(err, want) {
			t.Errorf("the error is %v, want %v", err, want)
		}
	}
	if !errors.Is(ofNothing, fs.ErrNotExist) || !errors.Is(notThere, fs.ErrNotExist) {
		t.Errorf("the errors are %v and %v", ofNothing, notThere)
	}
}
