// Package tree has directories as checkpoints have them.
//
// The object of a directory lists its [Entries]. Those name the objects of files and of further directories, so the hash of a
// root is that of a whole tree. [Read] reads a directory from a store, [Compare] tells what differs between two trees, and
// a [Walk] finds out what objects a tree consists of before they are there. Directories may be forged: none of these goes
// beyond what a tree can be.
package tree

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// A Kind is what an entry of a directory is.
type Kind byte

const (
	// Regular is a file with content.
	Regular Kind = 'f'
	// Directory is a directory, with an object of its own.
	Directory Kind = 'd'
	// Symlink is a symbolic link.
	Symlink Kind = 'l'
	// HardLink is a further name of a file that has an entry elsewhere in the tree. It has a Name and a Target.
	HardLink Kind = 'h'
	// FIFO is a named pipe.
	FIFO Kind = 'p'
)

// Flags of a file that is no directory.
const (
	// Holes says that the object is not the content, but the extents of it: see package holes.
	Holes = 1 << iota
	// Linked says that there are entries of kind HardLink for the file.
	Linked
)

// An Entry is a file in a directory, as a checkpoint has it.
type Entry struct {
	Name string
	Kind Kind
	// Mode has the permissions, with set-user-ID, set-group-ID and sticky as in chmod(2).
	Mode     uint32
	UID, GID uint32
	MTime    int64 // in nanoseconds since 1970
	Flags    byte
	Size     int64       // of a regular file
	Hash     object.Hash // of the object of a regular file or directory
	Target   string      // of a symbolic link; of a hard link, the path from the root
}

// Entries are what is in a directory, sorted by the bytes of the names.
type Entries []Entry

const (
	header     = "podagent tree 2\n"
	maxNameLen = 255
	maxPathLen = 1 << 20 // of a link's target; the depth bounds it before
	// ModeBits are those of a mode that an entry has.
	ModeBits = 0o7777
)

// Encode appends the object of a directory to b. Equal directories have equal objects.
func (t Entries) Encode(b []byte) []byte {
	b = append(b, header...)
	for i := range t {
		e := &t[i]
		b = append(b, byte(e.Kind))
		b = appendText(b, e.Name)
		if e.Kind == HardLink {
			b = appendText(b, e.Target)
			continue
		}
		b = binary.AppendUvarint(b, uint64(e.Mode))
		b = binary.AppendUvarint(b, uint64(e.UID))
		b = binary.AppendUvarint(b, uint64(e.GID))
		b = binary.AppendVarint(b, e.MTime)
		if e.Kind != Directory {
			b = append(b, e.Flags)
		}
		switch e.Kind {
		case Regular:
			b = binary.AppendUvarint(b, uint64(e.Size))
			b = append(b, e.Hash[:]...)
		case Directory:
			b = append(b, e.Hash[:]...)
		case Symlink:
			b = appendText(b, e.Target)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Decode reads the object of a directory. It takes nothing that Encode does not make: names
// are names, in order, and there is nothing behind the last one.
func Decode(b []byte) (Entries, error) {
	var t Entries
	err := Each(b, func(e *Entry) error {
		t = append(t, *e)
		return nil
	})
	return t, err
}

// Each is Decode for callers who need each entry once. An error of visit ends it.
func Each(b []byte, visit func(*Entry) error) error {
	d := decoder{rest: b}
	if string(d.bytes(len(header))) != header {
		return fmt.Errorf("%w: not a directory", object.ErrCorrupt)
	}
	last := ""
	for len(d.rest) > 0 && d.err == nil {
		e := d.entry()
		if d.err == nil && last >= e.Name { // names are not empty
			d.fail("names out of order")
		}
		if d.err != nil {
			break
		}
		last = e.Name
		if err := visit(&e); err != nil {
			return err
		}
	}
	return d.err
}

// A decoder reads an object from its beginning. After its first error it reads zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: a directory with %s", object.ErrCorrupt, why)
	}
	d.rest = nil
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.fail("a part cut off")
		return make([]byte, n)
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > limit || n > 1 && d.rest[n-1] == 0 { // which says the same in more bytes
		d.fail("a number that is none")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint(1<<64 - 1)
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) text(limit uint64) string {
	n := d.uvarint(min(limit, uint64(len(d.rest))))
	return string(d.bytes(int(n)))
}

func (d *decoder) hash() (h object.Hash) {
	copy(h[:], d.bytes(len(h)))
	return h
}

func (d *decoder) entry() Entry {
	e := Entry{Kind: Kind(d.bytes(1)[0]), Name: d.text(maxNameLen)}
	if d.err == nil && !isName(e.Name) {
		d.fail("a name that is none")
	}
	if e.Kind == HardLink {
		e.Target = d.text(maxPathLen)
		if d.err == nil && !IsPath(e.Target) {
			d.fail("a hard link to no path")
		}
		return e
	}
	e.Mode = uint32(d.uvarint(ModeBits))
	e.UID, e.GID = uint32(d.uvarint(1<<32-1)), uint32(d.uvarint(1<<32-1))
	e.MTime = d.varint()
	if e.Kind != Directory {
		e.Flags = d.bytes(1)[0]
		if e.Flags > Holes|Linked || e.Flags&Holes != 0 && e.Kind != Regular {
			d.fail("unknown flags")
		}
	}
	switch e.Kind {
	case Regular:
		e.Size = int64(d.uvarint(1<<63 - 1))
		e.Hash = d.hash()
	case Directory:
		e.Hash = d.hash()
	case Symlink:
		if e.Target = d.text(maxPathLen); d.err == nil && (e.Target == "" || strings.IndexByte(e.Target, 0) >= 0) {
			d.fail("a link to nothing")
		}
	case FIFO:
	default:
		d.fail("an entry of an unknown kind")
	}
	return e
}

// isName reports whether a directory can have a file of this name.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxNameLen && strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, 0) < 0
}

// IsPath reports whether a path names a file in the tree, from its root.
func IsPath(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if !isName(name) {
			return false
		}
	}
	return true
}
