package walk

import (
	"io/fs"
	"time"
)

// An Entry is a file of the tree, or an error in place of one. It is valid until
// visit returns; its strings stay valid.
type Entry struct {
	// Name is the last part of the path; empty for the root, which is visited only
	// if there is an error. For a file of rules that can't be read, it is the path
	// from the directory where the rules hold.
	Name string
	// Type holds the type bits of the file's mode.
	Type fs.FileMode
	// Err is why something could not be read: the directory, the file of rules,
	// or what the symbolic link names.
	Err error

	in      *dir // nil for the root
	descend bool
	linked  bool // the entry came by a symbolic link
	value   any
}

// Attr is what [Entry.Stat] finds out about a file.
type Attr struct {
	// Type holds the type bits of the mode.
	Type fs.FileMode
	// ModTime is when the content was last modified.
	ModTime time.Time
}

// Rel returns the path below the root, with slashes between its parts; it is
// empty for the root.
func (e *Entry) Rel() string {
	if e.in == nil {
		return ""
	}
	return string(append(appendPath(make([]byte, 0, 128), nil, e.in), e.Name...))
}

// appendPath appends the names from below the directory top, nil for the root, down
// to d, each with a slash. It does not recurse, since the depth of a tree has no
// bound.
func appendPath(b []byte, top, d *dir) []byte {
	n := 0
	for at := d; at != top && at.parent != nil; at = at.parent {
		n += len(at.name) + 1
	}
	start := len(b)
	b = append(b, make([]byte, n)...)
	end := start + n
	for at := d; at != top && at.parent != nil; at = at.parent {
		end--
		b[end] = '/'
		end -= len(at.name)
		copy(b[end:], at.name)
	}
	return b
}

// Value returns what the caller has kept for the directory that the entry is
// in.
func (e *Entry) Value() any { return e.value }

// Skip leaves out the content of the entry, a directory.
func (e *Entry) Skip() { e.descend = false }

// Enter makes the walk go on in the entry, a directory or a symbolic link to one.
// [Entry.Value] is value there. A caller that enters symbolic links must make sure
// that this ends.
func (e *Entry) Enter(value any) {
	e.descend, e.value = true, value
	e.linked = e.linked || e.Type == fs.ModeSymlink
}

// OpenFile opens a regular file, of an entry without an Err. If something else has
// replaced the file, it never waits, but fails with [ErrNotRegular], or with the
// system's error for a symbolic link. The caller closes the file.
func (e *Entry) OpenFile() (File, error) {
	return e.in.handle.openFile(e.Name, e.linked)
}

// Stat returns the attributes of the file, of an entry without an Err. With follow
// it returns those of the file that a symbolic link names.
func (e *Entry) Stat(follow bool) (Attr, error) {
	return e.in.handle.stat(e.Name, follow || e.linked)
}
