package linere

const (
	// maxInsts bounds a program, and with it the memory of compiling and of
	// matching: 40 bytes each here and in the standard library, and as many again
	// while it matches. \w{1000} takes one thirty-second of it.
	maxInsts = 32 << 10
	// maxCache bounds the automaton of a searcher, in bytes. Most patterns take
	// some kilobytes of it.
	maxCache = 2 << 20
	// minBlock and maxBlock are how much of a text the automaton takes at once:
	// little if lines match often, and at most what the processor's cache holds.
	minBlock, maxBlock = 4 << 10, 64 << 10
	// minUse is how many bytes for each state must be searched before the cache is full.
	// With fewer the automaton is not worth its cost: making a state takes as long as
	// the standard library takes for about so many bytes.
	minUse = 32
	// maxSteps bounds how long the standard library runs before it checks whether
	// the search has ended, in instructions times bytes: some ten milliseconds.
	maxSteps = 1 << 20
	// maxGiveUps is how often an automaton may give up before it is not tried again.
	maxGiveUps = 3
	// maxKeptSpans bounds the matches within one result of a search over many
	// lines, 16 bytes each.
	maxKeptSpans = 64 << 10
)

// The bounds of literals.
const (
	// maxLiteral is the length of a literal, in bytes: a longer one is hardly
	// rarer, and takes longer to compare.
	maxLiteral = 64
	// maxLiterals is how many literals are looked for by needles, each of which
	// takes a pass of its own: with more the automaton is faster. It also bounds the
	// literals that are made by combining parts that follow one another.
	maxLiterals = 8
	// maxNeedles is maxLiterals, and the characters beyond ASCII that have a letter
	// as their lower case (see withFolds).
	maxNeedles = maxLiterals + 2
	// maxClassLiterals bounds the characters of a class that is treated as literals.
	maxClassLiterals = 4
	// minSkip is the average distance in bytes that rare bytes must have to be worth a
	// call each. It is checked after maxMisses of them.
	minSkip, maxMisses = 32, 32
	// minWindow and maxWindow are how much of a text is searched for one literal
	// before it is searched for the next: little if lines match often, and no more
	// than the processor's first cache holds.
	minWindow, maxWindow = 256, 16 << 10
	// maxInVain bounds the lines that have a literal, but do not match: they may be
	// at most one part in so many of a text. If they are more, after minInVain
	// bytes, the automaton alone is faster, and takes over for dfaChunk bytes.
	maxInVain = 4
	minInVain = 4 << 10
	dfaChunk  = 64 << 10
	// minRun is the least length of a run that is looked for, and maxRunPart the
	// largest part of source code that its bytes may make up: with shorter or more
	// frequent runs the automaton is as fast.
	minRun     = 4
	maxRunPart = 0.35
	// maxRunStarts bounds the parts of a pattern at which a run is tried.
	maxRunStarts = 8
)

// Measures of literals and bytes, in eighths of a bit. A list below minWorth is not
// looked for (more than one place in 64 has one); one of maxWorth is as good as any
// (one of 16 million); a byte of rareByteBits is rare (one of 128).
const (
	minWorth     = 8 * 6
	maxWorth     = 8 * 24
	rareByteBits = 8 * 7
)
