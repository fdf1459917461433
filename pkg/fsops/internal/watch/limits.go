package watch

import "time"

// The bounds of a watch, each with its reason. The first two are what callers of
// [Run] notice: how late events are, and from which size of a tree on a renaming may
// cost an [Overflow].
const (
	// window is how long a watch holds events back, to join those of one path: longer
	// than a program takes between two writes to a file, and too short for a person to
	// notice.
	window = 5 * time.Millisecond
	// maxNames bounds the names that a watch keeps, about 10 MiB of them, to tell which
	// files came and went in a directory while it was renamed. The names in further
	// directories are not known, and renaming one is an overflow.
	maxNames = 128 << 10

	// pairWindows is how many windows the old name of a renamed file waits for the new
	// one. The kernel queues the two one after the other: one window would do if the
	// machine were never busy.
	pairWindows = 4
	// maxHeld bounds the events that are held: at more they are given before the
	// window ends.
	maxHeld = 4096
	// maxScanned bounds the files that a watch remembers from scans of new directories,
	// so as not to report them twice: more than a scan finds while the events of an
	// earlier one are still on their way.
	maxScanned = 64 << 10
	// renameSlack is how much earlier than the last quiet moment a file in a
	// renamed directory may have changed to be reported as written: the clock of
	// file systems ticks every 10 ms at worst, and a busy machine delays events by
	// more.
	renameSlack = 100 * time.Millisecond
	// dirBatch is how many names of a directory are read at once, so that a
	// cancelled context ends the reading of a huge directory.
	dirBatch = 1024
)
