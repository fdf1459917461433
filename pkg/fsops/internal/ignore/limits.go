package ignore

// The bounds of what is read and remembered, each with its reason.
const (
	// maxBytes and maxRules bound the rules that a walk holds at a time, from all files of
	// all levels: the text that they come from, and the patterns in it. The largest
	// repositories have some thousand patterns on a path, and hand-written lists stay far
	// below a megabyte. Patterns take up to 25 times the memory of their text.
	maxBytes = 1 << 20
	maxRules = 50_000
	// maxWild bounds those of them that no table finds (index.rest): each is compared with
	// each file, which takes about a microsecond for each 100 bytes of its path, and holds a
	// table of 2 KiB. Hand-written lists have some dozens. A rule counts once for each
	// wildSize bytes of its pattern, since longer ones take more of both.
	maxWild  = 2_000
	wildSize = 32
	// maxFile bounds each file that is read, of rules or of git's configuration: larger
	// rules have no room in a walk.
	maxFile = maxBytes
	// maxPrefix bounds the paths that each Dir remembers, in bytes; longer ones are
	// put together when they are needed. Otherwise a very deep tree would take
	// memory with the square of its depth. It is well below the system's limit of a
	// path.
	maxPrefix = 3 << 10
)
