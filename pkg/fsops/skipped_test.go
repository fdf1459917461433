//go:build unix

package fsops

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
)

func skippedError(files, binary int) *SkippedError {
	e := &SkippedError{}
	for i := range binary {
		e.Add(pathError("grep", fmt.Sprint("binary", i), &BinaryError{Offset: 7}))
	}
	for i := range files {
		e.Add(pathError("grep", fmt.Sprint("file", i), fs.ErrPermission))
	}
	return e
}

func TestSkippedErrorReadsAsASentence(t *testing.T) {
	for _, test := range []struct {
		files, binary int
		want          string
	}{
		{1, 0, "grep file0: permission denied"},
		{0, 1, "grep binary0: file is binary from byte 7 on, which was not searched"},
		{2, 0, "2 files or directories were skipped: grep file0: permission denied; grep file1: permission denied"},
		{500, 0, "500 files or directories were skipped: grep file0: permission denied; grep file1: permission denied; grep file2: permission denied; and 497 more"},
	} {
		if got := skippedError(test.files, test.binary).Error(); got != test.want {
			t.Errorf("%d files, %d binary ones: %q, want %q", test.files, test.binary, got, test.want)
		}
	}
}

func TestSkippedErrorWithoutReasonsSaysHowMany(t *testing.T) {
	for more, want := range map[int64]string{1: "1 files or directories were skipped", 5: "5 files or directories were skipped"} {
		if got := (&SkippedError{More: more}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSkippedErrorHasTheClassesOfItsReasons(t *testing.T) {
	e := skippedError(1, 1)
	if !errors.Is(e, ErrSkipped) || !errors.Is(e, fs.ErrPermission) || !errors.Is(e, ErrBinary) || errors.Is(e, fs.ErrNotExist) {
		t.Errorf("%v has the wrong classes", e)
	}
}

func TestSkippedErrorIsBounded(t *testing.T) {
	isBinary := func(err error) bool { return errors.Is(err, ErrBinary) }
	for _, test := range []struct{ files, binary, binaryLeft int }{
		{MaxSkipped, 0, 0},
		{3 * MaxSkipped, 0, 0},
		{0, 2 * MaxSkipped, MaxSkipped},
		{30, 2 * MaxSkipped, MaxSkipped - 30}, // skipped binary files make room
		{2 * MaxSkipped, MaxSkipped, 0},
	} {
		e := skippedError(test.files, test.binary)
		if e.Total() != int64(test.files+test.binary) || len(e.Errs) != MaxSkipped {
			t.Errorf("%+v: %d errors, %d in all", test, len(e.Errs), e.Total())
		}
		if left := len(slices.DeleteFunc(e.Errs, func(err error) bool { return !isBinary(err) })); left != test.binaryLeft {
			t.Errorf("%+v: %d errors are of binary files, want %d", test, left, test.binaryLeft)
		}
	}
}

func TestStatsAreSetHoweverTheLoopEnds(t *testing.T) {
	f := newTestFS(t)
	for i := range 10 {
		put(t, f, fmt.Sprint(i), "match\n")
	}
	for _, sorted := range []bool{false, true} {
		grep, glob := GrepStats{Binary: 7}, GlobStats{Truncated: true} // left from an earlier search
		for range f.Grep(t.Context(), "match", GrepOptions{Sort: sorted, Stats: &grep}) {
			break
		}
		for range f.Glob(t.Context(), "*", GlobOptions{Sort: map[bool]GlobSort{true: GlobByName}[sorted], Stats: &glob}) {
			break
		}
		if grep.Matches == 0 || grep.Files == 0 || grep.Binary != 0 || grep.Truncated || glob.Matches == 0 || glob.Truncated {
			t.Errorf("after a break: %+v, %+v", grep, glob)
		}
		for _, err := range f.Grep(t.Context(), "a(", GrepOptions{Stats: &grep}) {
			if err == nil || grep != (GrepStats{}) {
				t.Errorf("of an invalid pattern: %+v, error %v", grep, err)
			}
		}
	}
}
