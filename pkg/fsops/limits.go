package fsops

import "time"

// The bounds of this package, each with its reason. The few that callers or the
// machine notice come first.
const (
	// DefaultLineBytes bounds the text of [FS.ReadLines]: several screens of
	// a wide terminal, and well under a gRPC message.
	DefaultLineBytes = 1 << 20
	// MaxEditSize bounds the size of a file that [FS.Edit] edits, since it is
	// held in memory together with its new content.
	MaxEditSize = 16 << 20
	// MaxSkipped bounds the reasons that a [SkippedError] has: more than anybody
	// reads, and little enough for a gRPC message.
	MaxSkipped = 100
)

const (
	// maxGrepLine bounds the bytes of a line that a grep result carries:
	// minified sources have lines of megabytes that nobody reads.
	maxGrepLine = 4 << 10
	// maxGrepSearchLine bounds the memory of a search: of a line that is
	// longer, the beginning is searched. A power-of-two multiple of blockSize.
	maxGrepSearchLine = 16 << 20
	// maxGrepMemory bounds the buffers of all searches that are larger than
	// maxGrepKeep: four lines of the greatest length.
	maxGrepMemory = 4 * maxGrepSearchLine
	// maxEditMemory bounds the contents that all running edits hold. Each has up
	// to four: before and after, and both for the diff. Four of the largest files
	// fit.
	maxEditMemory = 4 * MaxEditSize
	// maxGlobSorted bounds the memory of matches that are to be sorted, in bytes:
	// the garbage collector may take as much again, and the list while it grows.
	maxGlobSorted = 24 << 20
	// maxGrepWorkers and maxGlobWorkers bound the processors of one search. More
	// would compete with the processes that the sandbox is for.
	maxGrepWorkers, maxGlobWorkers = 4, 4
)

// The other bounds: of files in general and of edits, of searches, of protection.
const (
	// blockSize is how much of a file is read or copied at once: large enough
	// that system calls do not matter, small enough for the cache.
	blockSize = 256 << 10
	// flushStep is how much of a new content is sent to the disk at once: much for the
	// disk, and little for the write to wait for at its end.
	flushStep = 8 << 20
	// maxLineCounting bounds how much of a file is read after the window of
	// [FS.ReadLines] only to count its lines: about 30 ms.
	maxLineCounting = 64 << 20
	// maxSymlinks bounds the symbolic links that are followed one after the
	// other, as the Linux kernel does (path_resolution(7)).
	maxSymlinks = 40
	// dirBatch is how many names of a directory are read at once, so that a
	// cancelled context ends the reading of a huge directory.
	dirBatch = 1024
	// maxRemoveOpen bounds the directories that a removal has open: hardly any
	// tree is deeper, and many removals at once stay under the usual limit of
	// 1024 descriptors.
	maxRemoveOpen = 64
	// publishAttempts bounds how often a write looks at its destination again
	// because another process made or removed it in between.
	publishAttempts = 16
	// tempAttempts bounds the search for a free temporary name. The names
	// are random with 50 bits: a second attempt hardly ever happens.
	tempAttempts = 16
	// reserveAttempts bounds how often the reservation of space begins again
	// after a signal, since some file systems make no progress then.
	reserveAttempts = 8

	// maxTreeEntries bounds the entries of an archive that is unpacked: several times
	// what the largest repositories have.
	maxTreeEntries = 10_000_000
	// maxReserve is how much room is left on a file system, in bytes, and at most a tenth
	// of what there was.
	maxReserve = 1 << 30
	// roomStep is how many bytes are written before the room is looked at again.
	roomStep = 16 << 20
	// treeEntrySize is about what the name and the inode of an entry take on a disk.
	treeEntrySize = 4 << 10
	// maxTreeDirs bounds the memory for the directories of an archive, whose modes and
	// times are set at its end. Each takes treeDirSize and its name.
	maxTreeDirs, treeDirSize = 64 << 20, 96
	// maxTreeName bounds the name of an entry. It may be longer than PATH_MAX, which is
	// about the paths of one system call.
	maxTreeName = 64 << 10
	// maxTreePadding bounds the zeros at the end of an archive: programs fill up blocks
	// of some KiB.
	maxTreePadding = 16 << 20

	// editAttempts bounds how often an edit begins again because the file
	// changed during it.
	editAttempts = 8
	// maxEditDiff bounds the diff that [FS.Edit] answers with: it is for a
	// reader, and has to fit a gRPC message.
	maxEditDiff = 1 << 20
	// diffContext is the number of unchanged lines around a change in a diff.
	diffContext = 3
	// maxDiffHunks bounds the changes that a diff shows: rendering takes about
	// a kilobyte for each, and nobody reads that many.
	maxDiffHunks = 8 << 10
	// diffWork bounds the changes that a diff shows by their number times the
	// file's size: rendering counts the lines before each change if the changes
	// are near each other. It is about a tenth of a second.
	diffWork = 2 << 30

	// globAhead is how many matches a search may be ahead of those that were
	// taken: it bounds the memory, and spares waking goroutines.
	globAhead = 4096
	// globGather is how many matches of one worker gather while there are others to
	// take: about a directory of them, as often as the workers share a lock anyway.
	globGather = 64
	// globPause is how long matches gather before they are given, after the
	// first: too short for a person to notice.
	globPause = time.Millisecond
	// globTogether and globTogetherSize bound the matches that are given together, in
	// number and in bytes: so many that handing them over costs little.
	globTogether, globTogetherSize = 1024, 64 << 10
	// maxGrepKeep bounds the buffer that each worker of a search may have of its own. A
	// power-of-two multiple of blockSize.
	maxGrepKeep = 1 << 20
	// maxGrepContext bounds the context lines: they are held in memory, with
	// up to maxGrepLine bytes each.
	maxGrepContext = 1000
	// maxGrepText bounds what a caller may ask for in place of maxGrepLine: it
	// has to fit a gRPC message.
	maxGrepText = 1 << 20
	// maxGrepBefore bounds the text of the lines that may turn out to be
	// context, which each worker of a search holds. It is enough for
	// maxGrepContext lines of maxGrepLine bytes.
	maxGrepBefore = 8 << 20
	// grepBatch and grepBatchSize bound the results that are handed over together, in
	// number and in bytes: so many that handing them over costs little.
	grepBatch, grepBatchSize = 1024, 128 << 10
	// grepAhead is how many batches may wait to be taken, so that the workers and the
	// taker do not wait for each other each time.
	grepAhead = 16
	// grepPause is how long results wait for others, after the first ones: too short
	// for a person to notice.
	grepPause = 5 * time.Millisecond
	// grepYields is how often a worker yields its processor when it has the first
	// results: once each for the taker, the sender, and the goroutine that the sender
	// wakes, and once more for other work. Without this, the first match of an agent
	// on two busy processors takes three times as long.
	grepYields = 4
	// grepTexts is how large the pieces are that texts of results share.
	grepTexts = 8 << 10
	// grepQueue is how many files a sorted search may be ahead of the results
	// that were taken, each with a batch: it bounds the memory, and keeps the
	// workers busy while one of them has a large file.
	grepQueue = 32
	// shownSkipped is how many reasons the text of a SkippedError has.
	shownSkipped = 3
	// maxFaultSearch bounds the search for the place of a syntax error, which
	// parses the pattern once for each of its bytes.
	maxFaultSearch = 4 << 10

	// renameSearches is how often a directory is searched for protected paths without
	// holding up other changes, before a search that holds them up.
	renameSearches = 3
	// maxProtectRules bounds the patterns of protected paths, since every change
	// is compared with all of them: that takes a millisecond at most.
	maxProtectRules = 1024
)
