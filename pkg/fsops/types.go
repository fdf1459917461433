package fsops

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"syscall"
	"time"
)

// The errors that the operations of this package have beside those of the
// operating system. They arrive wrapped in an error that names the path.
var (
	// ErrChanged says that a precondition on the file's etag did not hold.
	ErrChanged = errors.New("file changed since it was read")
	// ErrChecksum says that the content did not have the announced size or
	// checksum; nothing was written.
	ErrChecksum = errors.New("size or checksum does not match the content")
	// ErrNotRegular says that the operation needs a regular file, and found
	// a device, a FIFO or a socket, whose opening might block.
	ErrNotRegular = errors.New("not a regular file")
	// ErrUnsafeArchive says that an archive's entry would have been written
	// outside of the target directory.
	ErrUnsafeArchive = errors.New("archive entry leaves the target directory")
)

// A PatternError describes a pattern that cannot be compiled. It matches
// syscall.EINVAL.
type PatternError struct {
	Pattern string
	// Offset is where in Pattern the offending part begins, in bytes; -1
	// when it is not known.
	Offset int
	// Msg says what is wrong.
	Msg string
}

func (e *PatternError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("invalid pattern %q: %s", e.Pattern, e.Msg)
	}
	return fmt.Sprintf("invalid pattern %q at byte %d: %s", e.Pattern, e.Offset, e.Msg)
}

// Is makes a PatternError an invalid argument for errors.Is.
func (e *PatternError) Is(target error) bool { return target == syscall.EINVAL }

// An EditError says that an edit's old text did not occur exactly once. The
// file is unchanged.
type EditError struct {
	// Index is the edit's position in the request, from 0.
	Index int
	// Count is how often the old text occurs: 0, or 2 and more.
	Count int
	// Hint, if not empty, says what near miss was found.
	Hint string
}

func (e *EditError) Error() string {
	msg := "old text not found"
	if e.Count > 0 {
		msg = fmt.Sprintf("old text occurs %d times, not once", e.Count)
	}
	if e.Index > 0 {
		msg = fmt.Sprintf("edit %d: %s", e.Index+1, msg)
	}
	if e.Hint != "" {
		msg += " (" + e.Hint + ")"
	}
	return msg
}

// A SkippedError is a part of a tree that could not be read. It is the one
// error after which an iteration over results goes on.
type SkippedError struct{ Err error }

func (e *SkippedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason, an *fs.PathError.
func (e *SkippedError) Unwrap() error { return e.Err }

// Castagnoli is the polynomial of every checksum in this package and on the
// wire (CRC32C), for which processors have an instruction.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the size and checksum of a content, by which its receiver knows that
// it is whole.
type Sum struct {
	// Size in bytes.
	Size int64
	// CRC32C is the checksum with the [Castagnoli] polynomial.
	CRC32C uint32
}

// ReadOptions selects the bytes that [FS.Read] reads.
type ReadOptions struct {
	// Offset is the first byte, from 0. Beyond the end nothing is read.
	Offset int64
	// Length is how many bytes are read at most; 0 means to the end.
	Length int64
	// Opened, if not nil, is called with the file's attributes before the
	// first byte is written; its error ends the read.
	Opened func(Attr) error
}

// ReadResult says what [FS.Read] read.
type ReadResult struct {
	// Attr describes the file when it was opened.
	Attr Attr
	// Sum covers the bytes that were read.
	Sum Sum
}

// LineOptions selects the lines that [FS.ReadLines] reads.
type LineOptions struct {
	// First is the first line, from 1; 0 means 1.
	First int64
	// Max is how many lines are read at most; 0 means no limit but MaxBytes.
	Max int64
	// MaxBytes limits the text in bytes; 0 means [DefaultLineBytes]. Whole
	// lines are returned, but for a first line that alone is over the limit:
	// that is cut, never inside a UTF-8 sequence.
	MaxBytes int64
}

// Lines is a window of a file's lines.
type Lines struct {
	// Text holds the lines with their terminators, as they are in the file.
	Text []byte
	// First is the number of the first line in Text, from 1.
	First int64
	// Count is how many lines Text has.
	Count int64
	// Total is how many lines the file has, -1 if it was not counted. A last
	// line without a terminator counts.
	Total int64
	// Truncated says that MaxBytes ended the window before its last line.
	Truncated bool
	// CutLine says that the last line in Text is incomplete.
	CutLine bool
	// Attr describes the file when it was opened.
	Attr Attr
}

// WriteOptions says how [FS.Create] creates or replaces a file.
type WriteOptions struct {
	// Perm is the mode of a file that is made; an existing one keeps its
	// mode. 0 means 0o666. The umask applies.
	Perm fs.FileMode
	// Exclusive demands that the file does not exist (fs.ErrExist if it does).
	Exclusive bool
	// IfMatch, if not empty, demands that the file has this etag
	// ([ErrChanged] if it has another, fs.ErrNotExist if there is none).
	IfMatch string
	// Parents makes the missing parent directories, with mode 0o777 less the
	// umask.
	Parents bool
	// Sync has the content and its directory entry reach the disk (fsync)
	// before the write succeeds.
	Sync bool
}

// WriteResult says what a write did.
type WriteResult struct {
	// Attr describes the file as it is now.
	Attr Attr
	// Created says that there was no such file.
	Created bool
	// InPlace says that the file could not be replaced atomically (a mount
	// point, an owner that can't be kept, a directory that can't be written)
	// and was overwritten where it is.
	InPlace bool
}

// Edit replaces a text by another.
type Edit struct {
	// Old is found exactly, byte for byte. It must not be empty, and must
	// differ from New.
	Old, New []byte
	// All replaces every occurrence; otherwise there must be exactly one.
	All bool
}

// EditOptions says under which conditions [FS.Edit] edits.
type EditOptions struct {
	// IfMatch is as in [WriteOptions].
	IfMatch string
}

// EditResult says what [FS.Edit] did.
type EditResult struct {
	// Occurrences is how many places each edit replaced, in their order.
	Occurrences []int
	// Diff is the whole change as a unified diff with three lines of context,
	// empty if the edits undid each other.
	Diff []byte
	// DiffTruncated says that Diff is only the beginning of the change, since
	// the whole would be over [MaxEditDiff] bytes or has too many places.
	DiffTruncated bool
	// Write says how the file was written.
	Write WriteResult
}

// MkdirOptions says how [FS.Mkdir] makes a directory.
type MkdirOptions struct {
	// Perm is the mode; 0 means 0o777. The umask applies.
	Perm fs.FileMode
	// Parents makes missing parents, and does not mind if the directory
	// exists.
	Parents bool
}

// RemoveOptions says what [FS.Remove] removes.
type RemoveOptions struct {
	// Recursive removes a directory with all that is in it.
	Recursive bool
	// Force does not mind if there is nothing to remove.
	Force bool
}

// RenameOptions says how [FS.Rename] renames.
type RenameOptions struct {
	// NoReplace fails with fs.ErrExist where the new name exists, atomically.
	NoReplace bool
}

// CopyOptions says how [FS.Copy] copies.
type CopyOptions struct {
	// Recursive copies a directory with all that is in it.
	Recursive bool
	// NoReplace fails with fs.ErrExist where the destination exists.
	NoReplace bool
}

// ListOptions says what [FS.List] lists.
type ListOptions struct {
	// Recursive lists the whole tree below the directory, parents before
	// what is in them. Symbolic links are not followed.
	Recursive bool
}

// TreeStats counts what a tree transfer moved.
type TreeStats struct {
	// Entries is the number of files, directories and links.
	Entries int64
	// Bytes is the sum of the regular files' sizes.
	Bytes int64
	// Skipped is the number of devices, FIFOs and sockets, which an archive
	// leaves out.
	Skipped int64
}

// GlobOptions says where and how [FS.Glob] looks.
type GlobOptions struct {
	// Dir is where a relative pattern starts; empty means the workdir.
	Dir string
	// Limit ends the search after so many matches; 0 means no limit. The
	// result that says so has Truncated set.
	Limit int
	// NoHidden leaves out names that begin with a dot, unless the pattern
	// names the dot itself.
	NoHidden bool
	// Ignore leaves out what .gitignore files exclude, and .git itself.
	Ignore bool
	// Sort gives the matches in the order of their paths' bytes; otherwise
	// they come as they are found.
	Sort bool
}

// GlobMatch is one result of [FS.Glob].
type GlobMatch struct {
	// Path is relative to the directory that the search started in, or
	// absolute where the pattern was.
	Path string
	// Type holds the type bits of the file's mode.
	Type fs.FileMode
	// Truncated, with an empty Path, says that Limit ended the search while
	// there was more.
	Truncated bool
}

// GrepOptions says what [FS.Grep] searches, and how.
type GrepOptions struct {
	// Paths are the files and directories to search; none means the workdir.
	Paths []string
	// IgnoreCase matches letters whatever their case.
	IgnoreCase bool
	// Include and Exclude are globs in doublestar's syntax. One without a
	// slash is matched against the base name, others against the path below
	// the directory that is searched. With Include only files that match one
	// of them are searched; Exclude wins.
	Include, Exclude []string
	// Before and After are the numbers of context lines around each match.
	Before, After int
	// MaxPerFile ends the search of a file after so many matching lines; 0
	// means no limit.
	MaxPerFile int
	// Limit ends the whole search after so many matching lines; 0 means no
	// limit.
	Limit int
	// Hidden searches files and directories whose name begins with a dot
	// too (but .git only with NoIgnore).
	Hidden bool
	// NoIgnore searches what .gitignore files exclude, and .git, too.
	NoIgnore bool
}

// GrepKind tells the kinds of results of [FS.Grep] apart.
type GrepKind int

// The kinds of grep results.
const (
	// GrepMatch is a line that matches.
	GrepMatch GrepKind = iota + 1
	// GrepContext is a line beside one that matches.
	GrepContext
	// GrepFileError is a file or directory that could not be searched (Err);
	// the search goes on.
	GrepFileError
	// GrepBinary is a file that was left out because it holds NUL bytes.
	GrepBinary
	// GrepFileTruncated is a file whose further matches MaxPerFile left out.
	GrepFileTruncated
	// GrepDone is the last result of every search that was not cancelled; it
	// carries Stats.
	GrepDone
)

// GrepResult is one result of [FS.Grep]. Results come file by file, files in
// the order of their paths' bytes, lines in the order of their numbers.
type GrepResult struct {
	Kind GrepKind
	// Path is the file's path: relative where the searched path was.
	Path string
	// Line is the line's number, from 1.
	Line int64
	// Offset is where the line begins in the file, in bytes.
	Offset int64
	// Text is the line without its terminator, cut to [MaxGrepLine] bytes.
	Text []byte
	// Cut is how many bytes of the line Text lacks.
	Cut int64
	// Spans are the matches within Text.
	Spans []Span
	// Err says why a file could not be searched (GrepFileError).
	Err error
	// Stats says what the search did (GrepDone).
	Stats GrepStats
}

// Span is a range of bytes, End excluded.
type Span struct{ Start, End int }

// GrepStats says what a search did.
type GrepStats struct {
	// Files is how many files were searched, Matches how many lines matched.
	Files, Matches int64
	// Truncated says that Limit ended the search while there was more.
	Truncated bool
}

// WatchOptions says what [FS.Watch] watches.
type WatchOptions struct {
	// Recursive watches the whole tree, with the directories that are made
	// later.
	Recursive bool
}

// WatchOp is what happened to a watched file.
type WatchOp int

// The kinds of watch events.
const (
	// WatchReady is the first event: what happens from now on is reported.
	WatchReady WatchOp = iota + 1
	WatchCreate
	WatchWrite
	WatchRemove
	// WatchRename says that Path is gone by that name; its new name, if it
	// is watched, comes as a WatchCreate.
	WatchRename
	WatchChmod
	// WatchOverflow says that events were lost: look at the tree anew.
	WatchOverflow
)

// WatchEvent is something that happened to a watched file.
type WatchEvent struct {
	Op WatchOp
	// Path begins with the path that was watched, as the caller named it.
	Path string
	// Time is when the agent learned of it.
	Time time.Time
}

// SumOf returns the sum of data.
func SumOf(data []byte) Sum {
	return Sum{Size: int64(len(data)), CRC32C: crc32.Checksum(data, Castagnoli)}
}
