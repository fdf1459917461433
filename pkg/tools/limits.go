package tools

import "time"

// The bounds that a model meets, each with its reason. Each that is met is said
// in the result.
const (
	// MaxText and MaxLines bound the text of a result: what a model reads at
	// once without losing what else it knows, and what agents have made usual.
	MaxText  = 50 << 10
	MaxLines = 2000
	// MaxImage bounds an image in bytes: the largest that model providers take.
	MaxImage = 5 << 20
	// DefaultTimeout is how long a command may take unless the model says
	// otherwise: most builds and tests of a package take less.
	DefaultTimeout = 120 * time.Second
	// DefaultMaxTimeout is the longest time that a model may ask for unless the
	// host says otherwise. What takes longer belongs in the background, where
	// it holds up no conversation.
	DefaultMaxTimeout = 10 * time.Minute
	// MaxKept bounds the file that keeps a whole output, in bytes: as much as
	// the agent keeps of an output itself.
	MaxKept = 64 << 20
	// MaxConcurrent bounds the calls of a batch that run at once: a model
	// rarely makes more in one message, and a sandbox has few processors.
	MaxConcurrent = 8
	// AbandonAfter is how long after its context's end a tool may go on before
	// its call returns without it: those of this package take 5 s at most, for
	// the end of a command that does not want to end.
	AbandonAfter = 10 * time.Second
	// DefaultGlobLimit and DefaultGrepLimit are how many matches there are
	// unless the model says otherwise.
	DefaultGlobLimit = 1000
	DefaultGrepLimit = 200
	// MaxInstructions bounds each file of instructions for a model, in bytes,
	// and MaxSkills how many skills are listed: they are part of every request
	// to the model.
	MaxInstructions = 64 << 10
	MaxSkills       = 200
	// MaxSkillText bounds the name and the description of a skill, in bytes
	// each: the limit of the Agent Skills specification for a description
	// (https://agentskills.io/specification).
	MaxSkillText = 1024
)

// The bounds that are nobody's business but the package's own.
const (
	// tearLine is how much of an incomplete line is left out where a text is
	// cut, so that it ends with a whole line; a longer line is cut within.
	tearLine = 2 << 10
	// maxGrepText is how many bytes of a matching line are shown.
	maxGrepText = 1000
	// keptFiles is how many files with whole outputs a session has in its
	// sandbox: the model reads them soon or not at all.
	keptFiles = 8
	// maxSaid is how many of what could not be read are named one by one.
	maxSaid = 5
	// maxOffers is how many existing names are offered for a wrong one, maxNames
	// how many are looked at for it, and maxUp how many parent directories.
	maxOffers, maxNames, maxUp = 5, 2000, 8
	// maxQuote bounds what of a wrong value an error repeats, and maxPath what
	// of a path: nearly all paths are shorter, and one that was cut names no file.
	maxQuote, maxPath = 60, 512
	// maxOccurrences is how many lines are named on which a text that should
	// be unique occurs, and occurrenceBytes how much of the file is looked at.
	maxOccurrences, occurrenceBytes = 10, 4 << 20
	// killGrace is how long a background command has between TERM and KILL, and
	// killWait how long its end is waited for after that.
	killGrace, killWait = 2 * time.Second, 5 * time.Second
	// maxFrontMatter is how many lines of a skill are read for its front matter:
	// twice what a description of MaxSkillText takes with its other fields. All
	// of them travel, so that there is one round trip.
	maxFrontMatter = 32
	// temporaryDir is where sandboxes have temporary files.
	temporaryDir = "/tmp"
)
