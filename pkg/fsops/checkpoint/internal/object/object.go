// Package object stores content under its hash.
//
// A [Store] has what checkpoints consist of: the content of files, and directories as package tree writes them. Directories,
// and content of up to [WholeSize] without holes, are in packs: files with many objects. Larger content, and content with
// holes, has a file of its own, whose name is its hash. Without holes, it shares blocks with the file that it was copied
// from, where the file system can do that.
//
// Whoever can write to the tree may be able to write to the store. So what is read is compared with its hash, and what is
// opened, counted or removed may be anything: a link, a socket, a directory, or too much.
package object

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Errors of stores. They come wrapped.
var (
	// ErrCorrupt says that something in a store is missing, or is not what its hash says.
	ErrCorrupt = errors.New("the checkpoint is damaged")
	// ErrTooLarge says that something is beyond a bound.
	ErrTooLarge = errors.New("too large for a checkpoint")
	// ErrNoRoom says that the objects would take more than their share of what is free.
	ErrNoRoom = errors.New("no room for a checkpoint")
)

// A Hash is the SHA-256 of an object.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash returns the hash that String has written as text. It takes no other spelling.
func ParseHash(text string) (h Hash, err error) {
	n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*len(h))]))
	if err == nil && (n != len(h) || len(text) != 2*len(h) || hex.EncodeToString(h[:]) != text) {
		err = errors.New("not a hash")
	}
	return h, err
}

// An Encoding says how the bytes of an object are encoded where it is stored.
type Encoding byte

const (
	// Raw are bytes as they are.
	Raw Encoding = 0
	// S2 is a block of https://pkg.go.dev/github.com/klauspost/compress/s2, which takes a third of the time of Zstandard
	// at its fastest.
	S2 Encoding = 1
)
