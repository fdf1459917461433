package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// These are all that sending and receiving know of how objects are stored.

// treeText returns the text of a directory's object.
func (o *objects) treeText(h Hash) ([]byte, error) {
	c := o.coder()
	defer o.coders.Put(c)
	text, err := o.read(c, h, maxTreeSize)
	return bytes.Clone(text), err
}

// openStored opens an object as it is stored, which is so many bytes. Those of a small one are in buf, which it may
// replace by a larger one.
func (o *objects) openStored(h Hash, buf []byte) (r io.ReadCloser, next []byte, size int64, how Encoding, err error) {
	_, small, err := o.packs.find(h)
	if err != nil {
		return nil, buf, 0, 0, err
	}
	if small {
		text, how, err := o.packed(h, buf)
		return io.NopCloser(bytes.NewReader(text)), text, int64(len(text)), Encoding(how), err
	}
	file, size, err := o.open(h)
	if err != nil {
		return nil, buf, 0, 0, err
	}
	return storedFile{io.LimitReader(file, size), file}, buf, size, Raw, nil
}

type storedFile struct {
	io.Reader
	io.Closer
}

// An incoming is a new object that arrives in parts, and does not fit into memory.
type incoming struct {
	o    *objects
	file *os.File
	sum  hash.Hash
	size int64
}

func (o *objects) incoming() (*incoming, error) {
	file, err := os.OpenFile(o.temporary(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return &incoming{o: o, file: file, sum: sha256.New()}, err
}

func (in *incoming) add(data []byte) error {
	in.size += int64(len(data))
	err := in.o.take(int64(len(data)))
	if err == nil {
		_, err = in.file.Write(data)
	}
	in.sum.Write(data)
	return err
}

// path is the file's. Where the store's directories are changes from turn to turn: see pin.
func (in *incoming) path() string { return filepath.Join(in.o.tmp, filepath.Base(in.file.Name())) }

func (in *incoming) discard() {
	in.file.Close()
	_ = os.Remove(in.path())
	in.o.used.Add(-in.size)
}

// commit makes what arrived an object, if it is the one with this hash.
func (in *incoming) commit(h Hash) error {
	if Hash(in.sum.Sum(nil)) != h {
		in.discard()
		return damaged(h)
	}
	if err := errors.Join(in.file.Chmod(0o400), in.file.Close()); err != nil {
		in.discard()
		return err
	}
	return in.o.publish(in.path(), h)
}
