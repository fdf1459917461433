package globs

// The bounds of patterns, each with its reason. The two that users meet come first.
const (
	// maxPattern bounds the bytes of a pattern: sixteen times the longest path
	// that the system takes.
	maxPattern = 64 << 10
	// maxPatterns bounds the patterns that the braces of one stand for, since doublestar
	// tries all of them: with so many, a name takes some 20 ms, and no search can end
	// in the middle of a name.
	maxPatterns = 64 << 10

	// maxAlternatives bounds the patterns that braces are expanded to, in order to
	// skip directories that can hold no match. A search for a pattern of more
	// reads the whole tree.
	maxAlternatives = 256
	// maxMoves bounds what a search remembers for each state of its pattern:
	// nearly all names are matched by all parts, or by none.
	maxMoves = 32
)
