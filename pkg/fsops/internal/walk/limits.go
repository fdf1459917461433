package walk

// The bounds of a walk, each with its reason. The first two say how many descriptors
// and how much memory a walk takes.
const (
	// maxOpenDirs is about how many directories a walk has open: more than nearly
	// all trees need, and many walks at once stay under the usual limit of 1024
	// descriptors. Beyond it the walk closes those that it will need last, and later
	// opens the directories in them by their paths.
	maxOpenDirs = 128
	// batchEntries is how many entries of a directory a worker holds before it
	// visits them, or somewhat more: a directory of this size or less is read
	// whole before its first entry is visited, so that its rules are known.
	batchEntries = 4096
	// listBuffer is how much of a directory one system call reads, in bytes.
	listBuffer = 32 << 10
	// minShare is how many entries a worker has left at least when it gives
	// half of them to one that has nothing to do.
	minShare = 4
	// maxPath is somewhat less than the longest path that the system looks up at
	// once (PATH_MAX is 4096 on Linux).
	maxPath = 4000
)
