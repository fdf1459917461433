package console

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// DetachKeys is a flag for the keys that leave a command running, separated by
// commas as in docker. Each is a character, or ctrl- and one of a to z and @[\]^_.
// Without keys, a command cannot be left this way.
type DetachKeys struct {
	text  string
	bytes []byte // what a terminal sends for them
}

// DefaultDetachKeys returns docker's keys, ctrl-p ctrl-q.
func DefaultDetachKeys() DetachKeys {
	return DetachKeys{"ctrl-p,ctrl-q", []byte{'p' & 0x1f, 'q' & 0x1f}}
}

func (k *DetachKeys) String() string { return k.text }
func (k *DetachKeys) Type() string   { return "KEYS" }

func (k *DetachKeys) Set(s string) error {
	var sent []byte
	if s != "" {
		for key := range strings.SplitSeq(s, ",") {
			b, err := keyBytes(key)
			if err != nil {
				return err
			}
			sent = append(sent, b...)
		}
	}
	k.text, k.bytes = s, sent
	return nil
}

// keyBytes returns what a terminal sends for a key.
func keyBytes(key string) ([]byte, error) {
	char, isCtrl := strings.CutPrefix(key, "ctrl-")
	switch {
	case !isCtrl && len([]rune(key)) == 1:
		return []byte(key), nil
	case isCtrl && len(char) == 1 && strings.Contains(`abcdefghijklmnopqrstuvwxyz@[\]^_`, char):
		return []byte{char[0] & 0x1f}, nil
	}
	return nil, fmt.Errorf(`%q is neither a character nor ctrl- and one of a to z and @[\]^_`, key)
}

// A keyReader reads typed input, up to the detach keys.
type keyReader struct {
	from  io.Reader
	keys  []byte // at least one
	leave func() // called when they were typed

	typed []byte // to be passed on
	held  []byte // follows typed, and may be the beginning of keys
	err   error  // the end of from
}

// Read passes on typed input as soon as it cannot be part of the keys any more. It
// ends at the keys.
func (r *keyReader) Read(p []byte) (int, error) {
	for len(r.typed) == 0 {
		if bytes.Equal(r.held, r.keys) {
			r.leave()
			return 0, io.EOF
		}
		if r.err != nil {
			return 0, r.err
		}
		var n int
		n, r.err = r.from.Read(p)
		r.match(p[:n])
		if r.err != nil && !bytes.Equal(r.held, r.keys) {
			r.typed, r.held = append(r.typed, r.held...), nil
		}
	}
	n := copy(p, r.typed)
	r.typed = r.typed[n:]
	return n, nil
}

// match looks for the keys in the next piece of input. They may come in several pieces.
// It drops what follows them.
func (r *keyReader) match(p []byte) {
	for _, b := range p {
		if bytes.Equal(r.held, r.keys) {
			return
		}
		r.held = append(r.held, b)
		for !bytes.HasPrefix(r.keys, r.held) {
			r.typed, r.held = append(r.typed, r.held[0]), r.held[1:]
		}
	}
}
