package fsops

import "time"

// The bounds of this package, each with its reason.
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

// The bounds of the file operations that are nobody's business but their own.
const (
	// blockSize is how much of a file is read or copied at once: large enough
	// that system calls do not matter, small enough for the cache.
	blockSize = 256 << 10
	// flushStep is how much of a new content is sent to the disk at once: large
	// for the disk, and little for the end of the write to wait for.
	flushStep = 8 << 20
	// maxLineCounting bounds how much of a file is read after the window of
	// [FS.ReadLines] for its number of lines alone: about 30 ms.
	maxLineCounting = 64 << 20
	// maxSymlinks bounds the symbolic links that are followed one after the
	// other, as the Linux kernel does (path_resolution(7)).
	maxSymlinks = 40
	// maxEditMemory bounds the contents that all edits at work hold, each of
	// which is there up to four times: before and after, and both for the
	// diff. Four of the largest files fit.
	maxEditMemory = 4 * MaxEditSize
	// maxEditDiff bounds the diff that [FS.Edit] answers with: it is for a
	// reader, and has to fit a gRPC message.
	maxEditDiff = 1 << 20
	// maxGrepLine bounds the bytes of a line that a grep result carries:
	// minified sources have lines of megabytes that nobody reads.
	maxGrepLine = 4 << 10
	// maxGlobAlternatives bounds the patterns that braces are expanded to in
	// order to skip directories that can hold no match. A pattern of more is
	// matched all the same, against the whole tree.
	maxGlobAlternatives = 256
	// maxGlobPattern bounds the bytes of a pattern: sixteen times the longest
	// path that the system takes.
	maxGlobPattern = 64 << 10
	// maxGlobPatterns bounds the patterns that the braces of one stand for, since
	// doublestar tries all of them: with so many a name takes it some 20 ms, and
	// no search ends within a name.
	maxGlobPatterns = 64 << 10
	// maxGlobMoves bounds what a search remembers for each state of its pattern:
	// few names are anything but matched by all parts, or by none.
	maxGlobMoves = 32
	// maxGlobWorkers is as maxGrepWorkers.
	maxGlobWorkers = 4
	// globAhead is how many matches a search may be ahead of those that were
	// taken: it bounds the memory, and spares waking goroutines.
	globAhead = 4096
	// globGather is how many matches of one worker gather while there are others to
	// take: about a directory of them, as often as the workers share a lock anyway.
	globGather = 64
	// globPause is how long matches gather before they are given, after the
	// first: nothing that a person would notice.
	globPause = time.Millisecond
	// globTogether is how many matches are given together at most, and
	// globTogetherSize from how many bytes on: much more than handing over costs.
	globTogether, globTogetherSize = 1024, 64 << 10
	// maxGlobSorted bounds the memory of what is to be sorted, in bytes: the
	// garbage collector may take as much again, and the list while it grows.
	maxGlobSorted = 24 << 20
	// maxGrepSearchLine bounds the memory of a search: of a line that is
	// longer, the beginning is searched. A power-of-two multiple of blockSize.
	maxGrepSearchLine = 16 << 20
	// maxGrepKeep is up to which size each worker of a search may have a
	// buffer of its own. A power-of-two multiple of blockSize.
	maxGrepKeep = 1 << 20
	// maxGrepMemory bounds the buffers of all searches that are larger than
	// that: four lines of the greatest length.
	maxGrepMemory = 4 * maxGrepSearchLine
	// maxGrepContext bounds the context lines: they are held in memory, with
	// up to maxGrepLine bytes each.
	maxGrepContext = 1000
	// maxGrepWorkers bounds the files that are searched at once. More would
	// compete with the processes that the sandbox is for.
	maxGrepWorkers = 4
	// maxGrepText bounds what a caller may ask for in place of maxGrepLine: it
	// has to fit a gRPC message.
	maxGrepText = 1 << 20
	// maxGrepBefore bounds the text of the lines that may turn out to be
	// context, which each worker of a search holds. It is enough for
	// maxGrepContext lines of maxGrepLine bytes.
	maxGrepBefore = 8 << 20
	// grepBatch is how many results are handed over together at most, and
	// grepBatchSize from how many bytes on: much more than handing over costs.
	grepBatch, grepBatchSize = 1024, 128 << 10
	// grepAhead is how many batches may wait to be taken, so that neither those
	// who search nor the one who takes waits for the other each time.
	grepAhead = 16
	// grepPause is how long results wait for others, after the first ones: nothing
	// that a person would notice.
	grepPause = 5 * time.Millisecond
	// grepYields is how often a worker leaves its processor to those who hand on the
	// first results. Each time lets those run who are ready by then: who takes them,
	// who sends them on, and whom that wakes; one more is for another's work. Without
	// this, the first match of an agent on two busy processors takes three times as long.
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
	// maxWatchScanned bounds the files that a watch remembers to have found
	// in new directories, lest it report them twice: more than a scan finds
	// while the events of an earlier one are still on their way.
	maxWatchScanned = 64 << 10
	// maxWatchNames bounds the names that a watch keeps, about 10 MiB of them,
	// to tell what came and went in a directory while it was renamed. Of the
	// directories beyond it nothing is known, which a renaming says as an
	// overflow.
	maxWatchNames = 128 << 10
	// renameSearches is how often a directory is searched for protected paths
	// without holding up others, before it is searched with them held up.
	renameSearches = 3
	// watchWindow is how long a watch holds events back, to join those of one
	// path: longer than a program takes between two writes to a file, and
	// nothing that a person would notice.
	watchWindow = 5 * time.Millisecond
	// maxWatchHeld bounds the events that are held: at more they are given
	// before the window ends.
	maxWatchHeld = 4096
	// watchPairWindows is for how many windows the old name of a renamed file
	// waits for the new one. The kernel queues the two one after the other, so
	// that one would do if the machine were never busy.
	watchPairWindows = 4
	// watchRenameSlack is how much earlier than the last quiet moment a file in
	// a renamed directory may have changed to be reported as written: the
	// clock of file systems ticks every 10 ms at worst, and a busy machine
	// delays events by more.
	watchRenameSlack = 100 * time.Millisecond
	// maxProtectRules bounds the patterns of protected paths, since every change
	// is compared with all of them: that takes a millisecond at most.
	maxProtectRules = 1024
	// dirBatch is how many names of a directory are read at once, so that a
	// cancelled context ends the reading of a huge directory.
	dirBatch = 1024
	// maxRemoveOpen bounds the directories that a removal has open: hardly any
	// tree is deeper, and many removals at once stay under the usual limit of
	// 1024 descriptors.
	maxRemoveOpen = 64
	// publishAttempts bounds how often a write looks at its target again
	// because it came or went in between; each time another process won.
	publishAttempts = 16
	// editAttempts bounds how often an edit starts anew because the file
	// changed while it was being edited.
	editAttempts = 8
	// tempAttempts bounds the search for a free temporary name. The names
	// are random with 50 bits, so that a second attempt is next to unheard of.
	tempAttempts = 16
	// reserveAttempts bounds how often the reservation of space begins anew
	// after a signal, since on some file systems it makes no headway then.
	reserveAttempts = 8
	// diffContext is the number of unchanged lines around a change in a diff.
	diffContext = 3
	// maxDiffPlaces bounds the places that a diff shows: rendering takes about
	// a kilobyte for each, and nobody reads that many.
	maxDiffPlaces = 8 << 10
	// diffWork bounds the places that a diff shows: their number times the
	// file's size, since rendering counts the lines before each place where the
	// places are near each other. It is about a tenth of a second.
	diffWork = 2 << 30
)
