package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// maxDiffSize is the size of files up to which they are compared by lines, which takes some ten milliseconds.
const maxDiffSize = 256 << 10

var errBinary = errors.New("it is binary")

// addText adds how the content of a file differs. now says that eb describes what is in the tree.
func (s *Store) addText(d *Difference, ea, eb *tree.Entry, now bool) {
	if !isRegularOrNone(ea) || !isRegularOrNone(eb) {
		return
	}
	var before, after []byte
	from, to := "/dev/null", "/dev/null"
	var err error
	if ea != nil {
		from = label("a/" + d.Path)
		before, err = s.content(ea, maxDiffSize)
	}
	if eb != nil && err == nil {
		to = label("b/" + d.Path)
		if now {
			after, err = s.present(d.Path, eb, maxDiffSize)
		} else {
			after, err = s.content(eb, maxDiffSize)
		}
	}
	if err == nil && !(isText(before) && isText(after)) {
		err = errBinary
	}
	if err != nil {
		d.NoDiff = err.Error()
		return
	}
	d.Diff = []byte(udiff.Unified(from, to, string(before), string(after)))
}

func isText(content []byte) bool { return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0 }

// label returns a path as diffs have it, on one line.
func label(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' }) {
		return path
	}
	return strconv.Quote(path)
}

func isRegularOrNone(e *tree.Entry) bool { return e == nil || e.Kind == tree.Regular }

var errHoles = errors.New("it has holes")

// content returns the content of a file in a checkpoint.
func (s *Store) content(e *tree.Entry, limit int64) ([]byte, error) {
	if err := fits(e, limit); err != nil {
		return nil, err
	}
	c := s.objects.Coder()
	defer s.objects.Release(c)
	content, err := s.objects.Read(c, e.Hash, limit)
	return append([]byte{}, content...), err
}

func fits(e *tree.Entry, limit int64) error {
	switch {
	case e.Flags&tree.Holes != 0:
		return errHoles
	case e.Size > limit:
		return fmt.Errorf("it has %d bytes, and the limit is %d", e.Size, limit)
	}
	return nil
}

// present returns the content of a file in the tree, if it is still the one that a scan has found.
func (s *Store) present(path string, e *tree.Entry, limit int64) ([]byte, error) {
	if err := fits(e, limit); err != nil {
		return nil, err
	}
	file, err := s.openBelow(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && object.Sum(content) != e.Hash {
		err = errMoved
	}
	return content, err
}

// openBelow opens a file of the tree, and follows no link. It waits for nobody.
func (s *Store) openBelow(path string) (*os.File, error) {
	dir, err := openat(unix.AT_FDCWD, s.root, unix.O_RDONLY|unix.O_DIRECTORY)
	for err == nil {
		name, rest, deeper := strings.Cut(path, "/")
		flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
		if deeper {
			flags |= unix.O_DIRECTORY
		}
		var fd int
		fd, err = openat(dir, name, flags)
		unix.Close(dir)
		if err == nil && !deeper {
			return os.NewFile(uintptr(fd), name), nil
		}
		dir, path = fd, rest
	}
	return nil, err
}
