package object

import (
	"bytes"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// These are all that sending and receiving know of how objects are stored.

// DirText returns the text of a directory's object.
func (o *Store) DirText(h Hash) ([]byte, error) {
	c := o.Coder()
	defer o.Release(c)
	text, err := o.Read(c, h, MaxDir)
	return bytes.Clone(text), err
}

// OpenToSend opens an object, and tells how many bytes it has to send, and how they are encoded. Those of a small one are
// the coder's, until it reads another one.
func (o *Store) OpenToSend(c *Coder, h Hash) (r io.ReadCloser, size int64, how Encoding, err error) {
	in, at, err := o.find(h)
	if err != nil {
		return nil, 0, 0, err
	}
	if in == &o.unverified {
		text, err := o.Read(c, h, WholeSize)
		return io.NopCloser(bytes.NewReader(text)), int64(len(text)), Raw, err
	}
	if in != nil {
		text, how, err := o.packed(c, at)
		return io.NopCloser(bytes.NewReader(text)), int64(len(text)), how, err
	}
	file, size, err := o.open(h)
	if err != nil {
		return nil, 0, 0, err
	}
	return storedFile{io.LimitReader(file, size), file}, size, Raw, nil
}

// packed returns the text of an object in a pack, compressed unless it is very large.
func (o *Store) packed(c *Coder, at place) (text []byte, how Encoding, err error) {
	if c.packed, err = o.packs.read(at, c.packed); err != nil || at.how != Raw || len(c.packed) > WholeSize {
		return c.packed, at.how, err
	}
	c.Content, how = encode(c.Content[:0], c.packed, worthwhile)
	return c.Content, how, nil
}

// PutPacked stores an object of up to limit bytes, as OpenToSend has it, if it is what its hash says. Else the error is ErrCorrupt.
func (o *Store) PutPacked(c *Coder, h Hash, text []byte, how Encoding, limit int64) error {
	content, err := c.Decode(h, text, how, limit)
	if err != nil {
		return err
	}
	if len(content) < storedWorthwhile { // as Put stores it
		text, how = content, Raw
	}
	at, ok, err := o.packs.find(h)
	if err == nil && !(ok && at.whole) { // one that is there may be damaged
		err = o.add(&o.packs, h, true, text, how)
	}
	return err
}

type storedFile struct {
	io.Reader
	io.Closer
}

// An Incoming is a new object that arrives in parts, and does not fit into memory.
type Incoming struct {
	o    *Store
	file *os.File
	sum  hash.Hash
	size int64
}

// Incoming begins an object that arrives. The caller commits or discards it.
func (o *Store) Incoming() (*Incoming, error) {
	file, err := os.OpenFile(o.Temporary(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return &Incoming{o: o, file: file, sum: NewSum()}, err
}

// Add adds what has arrived of it. It fails with [ErrNoRoom] if the store has no room for that.
func (in *Incoming) Add(data []byte) error {
	in.size += int64(len(data))
	err := in.o.take(int64(len(data)))
	if err == nil {
		_, err = in.file.Write(data)
	}
	in.sum.Write(data)
	return err
}

// path is the file's. Where the store's directories are changes from turn to turn: see Place.
func (in *Incoming) path() string { return filepath.Join(in.o.tmp, filepath.Base(in.file.Name())) }

// Discard removes what has arrived.
func (in *Incoming) Discard() {
	in.file.Close()
	_ = os.Remove(in.path())
	in.o.used.Add(-in.size)
}

// Commit makes what has arrived an object. If it has another hash than this, it is discarded, and the error is [ErrCorrupt].
func (in *Incoming) Commit(h Hash) error {
	if Hash(in.sum.Sum(nil)) != h {
		in.Discard()
		return Damaged(h)
	}
	if err := errors.Join(in.file.Chmod(0o400), in.file.Close()); err != nil {
		in.Discard()
		return err
	}
	return in.o.publish(in.path(), h, in.size)
}
