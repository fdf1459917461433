package checkpoint

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// A kind is what an entry of a directory is.
type kind byte

const (
	regular   kind = 'f'
	directory kind = 'd'
	symlink   kind = 'l'
	hardLink  kind = 'h' // a further name of a file that has an entry elsewhere in the tree
	fifo      kind = 'p'
)

// Flags of a file that is no directory.
const (
	// holes says that the object is not the content, but the extents of it: see sparse.go.
	holes = 1 << iota
	// linked says that there are entries of kind hardLink for the file.
	linked
)

// An entry is a file in a directory, as a checkpoint has it.
type entry struct {
	name string
	kind kind
	// mode has the permissions, with set-user-ID, set-group-ID and sticky as in chmod(2).
	mode     uint32
	uid, gid uint32
	mtime    int64 // in nanoseconds since 1970
	flags    byte
	size     int64  // of a regular file
	hash     Hash   // of the object of a regular file or directory
	target   string // of a symbolic link; of a hard link, the path from the root
}

// A tree is the content of a directory, sorted by the bytes of the names.
type tree []entry

const (
	treeHeader  = "podagent tree 2\n"
	maxNameLen  = 255
	maxPathLen  = 1 << 20 // of a link's target; the depth bounds it before
	maxTreeSize = 1 << 28 // bytes of one directory
	modeBits    = 0o7777
)

// encode appends the object of a directory. Equal directories have equal objects.
func (t tree) encode(b []byte) []byte {
	b = append(b, treeHeader...)
	for i := range t {
		e := &t[i]
		b = append(b, byte(e.kind))
		b = appendText(b, e.name)
		if e.kind == hardLink {
			b = appendText(b, e.target)
			continue
		}
		b = binary.AppendUvarint(b, uint64(e.mode))
		b = binary.AppendUvarint(b, uint64(e.uid))
		b = binary.AppendUvarint(b, uint64(e.gid))
		b = binary.AppendVarint(b, e.mtime)
		if e.kind != directory {
			b = append(b, e.flags)
		}
		switch e.kind {
		case regular:
			b = binary.AppendUvarint(b, uint64(e.size))
			b = append(b, e.hash[:]...)
		case directory:
			b = append(b, e.hash[:]...)
		case symlink:
			b = appendText(b, e.target)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeTree reads the object of a directory. It takes nothing that encode does not make: names
// are names, in order, and there is nothing behind the last one.
func decodeTree(b []byte) (tree, error) {
	var t tree
	err := eachEntry(b, func(e *entry) error {
		t = append(t, *e)
		return nil
	})
	return t, err
}

// eachEntry is decodeTree for those who need each entry once.
func eachEntry(b []byte, visit func(*entry) error) error {
	d := decoder{rest: b}
	if string(d.bytes(len(treeHeader))) != treeHeader {
		return fmt.Errorf("%w: not a directory", ErrCorrupt)
	}
	last := ""
	for len(d.rest) > 0 && d.err == nil {
		e := d.entry()
		if d.err == nil && last >= e.name { // names are not empty
			d.fail("names out of order")
		}
		if d.err != nil {
			break
		}
		last = e.name
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
		d.err = fmt.Errorf("%w: a directory with %s", ErrCorrupt, why)
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

func (d *decoder) hash() (h Hash) {
	copy(h[:], d.bytes(len(h)))
	return h
}

func (d *decoder) entry() entry {
	e := entry{kind: kind(d.bytes(1)[0]), name: d.text(maxNameLen)}
	if d.err == nil && !isName(e.name) {
		d.fail("a name that is none")
	}
	if e.kind == hardLink {
		e.target = d.text(maxPathLen)
		if d.err == nil && !isPath(e.target) {
			d.fail("a hard link to no path")
		}
		return e
	}
	e.mode = uint32(d.uvarint(modeBits))
	e.uid, e.gid = uint32(d.uvarint(1<<32-1)), uint32(d.uvarint(1<<32-1))
	e.mtime = d.varint()
	if e.kind != directory {
		e.flags = d.bytes(1)[0]
		if e.flags > holes|linked || e.flags&holes != 0 && e.kind != regular {
			d.fail("unknown flags")
		}
	}
	switch e.kind {
	case regular:
		e.size = int64(d.uvarint(1<<63 - 1))
		e.hash = d.hash()
	case directory:
		e.hash = d.hash()
	case symlink:
		if e.target = d.text(maxPathLen); d.err == nil && (e.target == "" || strings.IndexByte(e.target, 0) >= 0) {
			d.fail("a link to nothing")
		}
	case fifo:
	default:
		d.fail("an entry of an unknown kind")
	}
	return e
}

// isName reports whether a directory can have a file of this name.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxNameLen && strings.IndexByte(name, '/') < 0 && strings.IndexByte(name, 0) < 0
}

// isPath reports whether a path names a file in the tree, from its root.
func isPath(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if !isName(name) {
			return false
		}
	}
	return true
}
