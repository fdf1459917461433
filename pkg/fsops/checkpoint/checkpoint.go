// Package checkpoint keeps states of a directory tree, and brings them back.
//
// A [Store] belongs to one tree. [Store.Create] records what is in the tree now: a
// checkpoint. [Store.Restore] makes the tree, or some paths in it, what they were.
//
// Content is kept once, in objects that are named by their SHA-256. A directory is an
// object, too: the list of what is in it, with the hashes of that, as in git. So what has
// not changed between two checkpoints is shared. A checkpoint itself is a manifest, which
// names the object of the tree, and its [ID] is the manifest's hash. Who keeps the ID
// notices if anybody has changed anything of the checkpoint since: all that is read is
// compared with its hash.
//
// A checkpoint has regular files with their holes, directories, symbolic links and hard
// links, and FIFOs; their permissions, owners and modification times. It has no
// sockets, devices and extended attributes, and nothing of what is mounted in the tree.
//
// Whether a file has changed is told by one stat: by its inode, its size, and its times. See
// scan for where that is not enough.
//
// A store is a directory with
//
//	manifests/  a file for each checkpoint, which its ID names
//	packs/      small objects, many in a file
//	unverified/ packs that have come to populate the tree, until all that is in them has been compared with its hash
//	objects/    large objects, each in a file that its hash names
//	tmp/        files on their way to one of these
//	arrivals    when checkpoints of other stores arrived
//	populated   which checkpoint the tree was populated from
//	index       what the latest scan found in each file; a process that has not written it reads everything
//	journal     the restore that is under way
//	unfinished  the restore that was given up, until somebody decides
//
// A restore scans the tree, and makes a checkpoint of it: the one of before. It checks that the store has all that it
// needs, waits until the disk has all that it will remove, and writes the journal. Then it goes through the directories.
// It stages each file that is to be there, with content, mode and times, under a name of its own, swaps it with what is
// in its place, and removes that if it is what the scan has found; otherwise it swaps back. Hard links come last.
// When all this is on the disk, the journal goes. Whatever a kill leaves, [Store.Recover] finds by the journal.
package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// Errors of this package. They come wrapped.
var (
	// ErrNotFound says that there is no such checkpoint: it never was, or was dropped.
	ErrNotFound = errors.New("no such checkpoint")
	// ErrCorrupt says that something in the store is missing, or is not what its hash
	// says. The store can be written to by whoever can write to the tree.
	ErrCorrupt = object.ErrCorrupt
	// ErrTooLarge says that the tree, or a store, is beyond a bound of this package.
	ErrTooLarge = object.ErrTooLarge
	// ErrNoRoom says that a checkpoint would take more than its share of what is free.
	ErrNoRoom = object.ErrNoRoom
	// ErrIncomplete says that a restore has left some paths as they were. Restored.Kept has them.
	ErrIncomplete = errors.New("some files are not as in the checkpoint")
	// ErrUnfinished says that a restore could be neither completed nor undone, and that nobody has decided yet what the
	// tree is to be.
	ErrUnfinished = errors.New("a restore could be neither completed nor undone")
)

// A Hash is the SHA-256 of an object.
type Hash = object.Hash

// An ID names a checkpoint: 64 hexadecimal digits, the hash of its manifest.
type ID string

// ParseID returns the ID that a text is. Any other text is [fs.ErrInvalid].
func ParseID(text string) (ID, error) {
	if _, err := object.ParseHash(text); err != nil {
		return "", fmt.Errorf("%w: %.80q is no id of a checkpoint, which has %d hexadecimal digits", fs.ErrInvalid, text, 2*sha256.Size)
	}
	return ID(text), nil
}

// A Checkpoint describes a checkpoint.
type Checkpoint struct {
	ID ID
	// Name is what it was created with, and may be empty. Several may have one name.
	Name string
	// Automatic is what it was created with.
	Automatic bool
	Time      time.Time
	// Files counts everything in it but directories; Bytes is the sum of the sizes of the
	// regular files.
	Files, Bytes int64
	// Stored is how many bytes of the store were written for it.
	Stored int64
	// LeftOut says what the tree had besides, and why it is not in it.
	LeftOut []LeftOut
	// MoreLeftOut counts what LeftOut does not name, since there is too much.
	MoreLeftOut int64
	// Moving names files that changed whenever they were read. What the checkpoint has of
	// them may never have been there at any one moment.
	Moving []string
	// MoreMoving counts what Moving does not name.
	MoreMoving int64
}

// LeftOut is a file that a checkpoint lacks.
type LeftOut struct {
	Path string
	Why  string
}

// CreateOptions say what a new checkpoint is like.
type CreateOptions struct {
	// Name is for people. It has up to 200 bytes.
	Name string
	// Automatic says that a program makes it at each step: it is dropped with those without a name, though it may
	// have one.
	Automatic bool
	// Exclude are globs of files that the checkpoint does not have, as in [fsops.ArchiveOptions]. A restore
	// of it leaves such files alone. A glob that is not valid is [fs.ErrInvalid].
	// There may be 1000 of them, with 65536 characters together.
	Exclude []string
}

// RestoreOptions say what of a checkpoint is restored.
type RestoreOptions struct {
	// Paths are what to restore, each with all that is below it: relative to the tree's root,
	// without links in them. Without any, everything is restored. There may be 1000 of them, with 64 KiB together. Names of
	// a file that are among them are of one file again; names elsewhere may be of another one then.
	Paths []string
}

// Restored says what a restore has done.
type Restored struct {
	// Before is the checkpoint of what was there before.
	Before Checkpoint
	// Changed counts the files, directories and links that were made, replaced, changed or removed.
	Changed int64
	// Kept are paths that are not as in the checkpoint, and why. MoreKept counts those beyond a
	// thousand.
	Kept     []LeftOut
	MoreKept int64
}

// How a path differs between two states.
const (
	Added      = "added"
	Removed    = "removed"
	Modified   = "modified"   // its content, or what a link names
	Retyped    = "retyped"    // such as a directory in the place of a file
	Changed    = "changed"    // its mode, owner or time alone
	Unreadable = "unreadable" // it is in the second state, but could not be read, so that it may differ, with all that is in it
)

// A Difference is a path that differs between two states.
type Difference struct {
	Path string
	How  string // one of the above
	Dir  bool   // whether it is a directory, after the change if it is there then
	// Diff is a unified diff, if DiffOptions.Text asks for it, of a file that is text of up to 256 KiB in both states or
	// missing in one. NoDiff says why there is none of another file whose content differs, or why it could not be read.
	Diff   []byte
	NoDiff string
}

var letters = map[string]string{Added: "A", Removed: "D", Modified: "M", Retyped: "T", Changed: "m", Unreadable: "?"}

// Line returns one line about the difference, with the path as it is written there: a letter for How (A, D, M, T, m or ?),
// the path, with a slash if it is a directory, and why there is no diff.
func (d Difference) Line(path string) string {
	line := letters[d.How] + " " + path
	if d.Dir {
		line += "/"
	}
	if d.NoDiff != "" {
		line += " (" + d.NoDiff + ")"
	}
	return line
}

// DiffOptions say what a comparison tells.
type DiffOptions struct {
	Text bool // unified diffs, too
}
