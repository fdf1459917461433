// Package sessionstore keeps the data that an agent host must not lose between two
// tries of a session: a snapshot, such as the messages so far. It is kept under
// the id that also names the session's sandbox. If a host is killed, the next try
// with the same id finds the pod, the workspace and the conversation.
//
// [Disk] keeps snapshots for the hosts of one machine, [Cluster] for hosts on any
// machine. Both save a snapshot as a whole or not at all, and replace only the
// version that the caller knows. So if two hosts have the same session, one of
// them gets [ErrConflict], and no message is lost unnoticed.
//
// Snapshots are not encrypted: they are as secret as the store is.
package sessionstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"unicode/utf8"
)

// ErrConflict says that the snapshot has another version than the caller knows:
// load it, and decide again.
var ErrConflict = errors.New("another host has saved the session")

// Store keeps snapshots by session id. An id is 1 byte to 4 KiB of UTF-8, like that
// of a sandbox; ids are compared byte by byte. Methods may be called concurrently,
// also by several hosts. Their errors are *[Error].
type Store interface {
	// Load returns the snapshot, or fs.ErrNotExist.
	Load(ctx context.Context, id string) (Snapshot, error)
	// Save replaces the snapshot of this version by data, and returns the new
	// version. version is the one that Load or the last Save returned, or empty for
	// a session without a snapshot. Save fails with [ErrConflict] if the snapshot
	// has another version or was deleted, and with syscall.EFBIG if data is larger
	// than [MaxSnapshot].
	//
	// After any other error, the snapshot may have been saved or not: Load tells.
	Save(ctx context.Context, id string, data []byte, version string) (string, error)
	// Delete deletes the snapshot, whatever its version. If there is none, that is
	// no error.
	Delete(ctx context.Context, id string) error
}

// Snapshot is the saved data of a session.
type Snapshot struct {
	Data []byte
	// Version is unique among the session's snapshots, even those with equal data.
	Version string
}

// Error is an error of a [Store].
type Error struct {
	// Op is "load", "save" or "delete".
	Op string
	// ID is the id of the session.
	ID  string
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("cannot %s session %.*q: %v", e.Op, shownID, e.ID, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

func wrap(op, id string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, ID: id, Err: err}
}

// check returns what is wrong with the id or the size of the data.
func check(id string, data []byte) error {
	switch {
	case id == "":
		return fmt.Errorf("a session needs an id: %w", fs.ErrInvalid)
	case len(id) > maxID:
		return fmt.Errorf("the id has %d bytes, more than %d: %w", len(id), maxID, fs.ErrInvalid)
	case !utf8.ValidString(id):
		return fmt.Errorf("the id is not UTF-8: %w", fs.ErrInvalid)
	case len(data) > MaxSnapshot:
		return fmt.Errorf("the snapshot has %d bytes, more than %d: %w", len(data), MaxSnapshot, syscall.EFBIG)
	}
	return nil
}

// nameOf returns a unique name for the session that is valid in any file system
// and any cluster.
func nameOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
