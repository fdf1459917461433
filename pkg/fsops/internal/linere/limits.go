package linere

const (
	// maxInsts bounds a program, and with it the memory of compiling and of
	// matching: 40 bytes each here and in the standard library, and as many
	// again while it matches. It is what \w{1000} takes thirty-two times.
	maxInsts = 32 << 10
	// maxCache bounds the automaton of a searcher, in bytes. Most patterns take
	// some kilobytes of it.
	maxCache = 2 << 20
	// minBlock and maxBlock are how much of a text the automaton takes at once:
	// little where lines match often, and what the processor's cache holds.
	minBlock, maxBlock = 4 << 10, 64 << 10
	// minUse is how many bytes for each state have to be searched before the
	// cache is full, for the automaton to pay: making a state takes as long as
	// the standard library takes for about so many bytes.
	minUse = 32
	// maxSteps bounds what the standard library does without looking whether the
	// search has ended, in instructions times bytes: some ten milliseconds.
	maxSteps = 1 << 20
	// maxGiveUps is how often an automaton that does not pay is tried.
	maxGiveUps = 3
	// maxKeptSpans bounds the matches within one result of a search over many
	// lines, 16 bytes each.
	maxKeptSpans = 64 << 10
)

// The bounds of what is known of a pattern's literals.
const (
	// maxLiteral is the length of a literal, in bytes: a longer one is hardly
	// rarer, and takes longer to compare.
	maxLiteral = 64
	// maxLiterals is how many literals are looked for by needles, each of which
	// takes a pass of its own: with more the automaton is faster. It is also how
	// many are made by combining what follows one another.
	maxLiterals = 8
	// maxNeedles is that with the characters beyond ASCII that have a letter as
	// their lower case (see withFolds).
	maxNeedles = maxLiterals + 2
	// maxClassLiterals is how many characters a class has that is taken for as
	// many literals.
	maxClassLiterals = 4
	// minSkip is how many bytes a rare byte has to be apart, on average after
	// maxMisses of them, to be worth a call each.
	minSkip, maxMisses = 32, 32
	// minWindow and maxWindow are how much of a text is searched for one literal
	// before it is searched for the next: little where lines match often, and
	// no more than the processor's first cache holds.
	minWindow, maxWindow = 256, 16 << 10
	// maxInVain is which part of a text the lines that have a literal and yet do
	// not match may make up, as a divisor: with more, from minInVain bytes on,
	// the automaton alone is faster. Then it takes over for dfaChunk bytes.
	maxInVain = 4
	minInVain = 4 << 10
	dfaChunk  = 64 << 10
	// minRun is how long a run of bytes is at least to be looked for, and
	// maxRunPart which part of source code its bytes make up at most: with
	// shorter and more frequent ones the automaton is as fast.
	minRun     = 4
	maxRunPart = 0.35
	// maxRunStarts bounds the parts of a pattern that are tried as one run.
	maxRunStarts = 8
)

// In eighths of a bit: what a list of literals has to be worth to be looked for,
// what is as good as any, and from when on a byte is rare: in fewer places than
// one of 64, one of 16 million, and one of 128.
const (
	minWorth     = 8 * 6
	maxWorth     = 8 * 24
	rareByteBits = 8 * 7
)
