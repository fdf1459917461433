// Package sessionstore keeps what an agent host must not lose between two
// tries of a session: a snapshot, which may be anything, such as the messages
// so far, under the id that also names the session's sandbox. A host that was
// killed is tried again with the same id, and finds the pod, the workspace and
// the conversation.
//
// [Disk] keeps snapshots for the hosts of one machine, [Cluster] for those of
// all. Each saves a snapshot whole or not at all, and only in the place of the
// version that the caller knows: when two hosts have the same session, one of
// them learns of it by [ErrConflict], and no message is lost unseen.
//
// Snapshots are kept as they are. What they hold is as secret as the store.
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

// ErrConflict says that the snapshot is another one than the caller knows:
// load it, and decide anew.
var ErrConflict = errors.New("the session was saved by somebody else")

// Store keeps snapshots by the ids of their sessions. An id is 1 byte to 4 KiB of
// UTF-8, as that of a sandbox is; ids of different spelling are different
// sessions. Methods may be called concurrently, also by several hosts. Their
// errors are *[Error].
type Store interface {
	// Load returns the snapshot, or fs.ErrNotExist.
	Load(ctx context.Context, id string) (Snapshot, error)
	// Save keeps data as the snapshot that follows version, and returns its
	// own: version is that of the Snapshot that was loaded, what the last Save
	// returned, or empty for a session that has none. It fails with
	// [ErrConflict] if there is another one, or none any more, and with
	// syscall.EFBIG if data is larger than [MaxSnapshot].
	//
	// When it fails otherwise, the snapshot may be saved or not: Load tells.
	Save(ctx context.Context, id string, data []byte, version string) (string, error)
	// Delete forgets the snapshot, whatever its version. That there is none is
	// no error.
	Delete(ctx context.Context, id string) error
}

// Snapshot is what a store has of a session.
type Snapshot struct {
	Data []byte
	// Version tells this snapshot from every other one of the session, also
	// from one with the same data.
	Version string
}

// Error is what a [Store] returns.
type Error struct {
	// Op is "load", "save" or "delete".
	Op string
	// ID is the session's.
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

// check returns what is wrong with what a caller gave.
func check(id string, data []byte) error {
	switch {
	case id == "":
		return fmt.Errorf("a session needs an id: %w", fs.ErrInvalid)
	case len(id) > maxID:
		return fmt.Errorf("the id has %d bytes, with %d at most: %w", len(id), maxID, fs.ErrInvalid)
	case !utf8.ValidString(id):
		return fmt.Errorf("the id is not UTF-8: %w", fs.ErrInvalid)
	case len(data) > MaxSnapshot:
		return fmt.Errorf("a snapshot of %d bytes, with %d at most: %w", len(data), MaxSnapshot, syscall.EFBIG)
	}
	return nil
}

// nameOf returns a name for the session that any file system and any cluster
// takes, and that no other session has.
func nameOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
