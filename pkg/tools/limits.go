package tools

import "time"

// The limits for a model, each with its reason. A result that hits one says so.
const (
	// MaxText, in bytes, and MaxLines bound the text of a result. A model can read
	// that much at once without losing its context, and many agents use these
	// limits.
	MaxText  = 50 << 10
	MaxLines = 2000
	// MaxImage bounds an image in bytes: model providers accept no larger ones.
	MaxImage = 5 << 20
	// DefaultTimeout is the timeout of a command unless the model sets one: most
	// builds and tests of a package take less.
	DefaultTimeout = 120 * time.Second
	// DefaultMaxTimeout is the longest timeout that a model may ask for unless
	// the host sets another. Longer commands belong in the background, where they
	// do not hold up the conversation.
	DefaultMaxTimeout = 10 * time.Minute
	// MaxKept bounds the file that keeps a whole output, in bytes. An agent with a
	// disk keeps as much of an output itself.
	MaxKept = 64 << 20
	// MaxConcurrent bounds the calls of a batch that run at once: a model
	// rarely makes more in one message, and a sandbox has few processors.
	MaxConcurrent = 8
	// AbandonAfter is how long a call waits for its tool after the context ended.
	// The tools of this package take 5 s at most, to kill a command that does not
	// end by itself.
	AbandonAfter = 10 * time.Second
	// DefaultGlobLimit and DefaultGrepLimit are the most matches in a result,
	// unless the model sets a limit.
	DefaultGlobLimit = 1000
	DefaultGrepLimit = 200
	// MaxInstructions bounds each file of instructions in bytes, and MaxSkills the
	// number of skills: they are part of every request to the model.
	MaxInstructions = 64 << 10
	MaxSkills       = 200
	// MaxSkillText bounds the name and the description of a skill, in bytes
	// each: the limit of the Agent Skills specification for a description
	// (https://agentskills.io/specification).
	MaxSkillText = 1024
	// MaxSteps bounds the history of a session: an agent keeps as many checkpoints.
	MaxSteps = 1000
)

// The internal limits.
const (
	// tearLine is the longest incomplete line, in bytes, that is dropped to make
	// a cut text end with a whole line. A longer line is cut inside.
	tearLine = 2 << 10
	// maxGrepText is the most bytes of a matching line in a result.
	maxGrepText = 1000
	// claudeGlobLimit, and defaultHead for Grep, are the limits that the tools of
	// Claude Code have.
	claudeGlobLimit, defaultHead = 100, 250
	// keptFiles is how many whole outputs a session keeps in its sandbox: the
	// model reads them soon or not at all.
	keptFiles = 8
	// maxSaid is how many unreadable files, or known commands, a result names.
	maxSaid = 5
	// maxOffers is how many existing names are suggested for a missing one.
	// maxNames bounds the names that are compared with it, and maxUp the parent
	// directories that are tried.
	maxOffers, maxNames, maxUp = 5, 2000, 8
	// maxQuote is how many bytes of a wrong value an error repeats. maxPath is the
	// same for a path: it is larger than nearly all paths, because a cut path is
	// useless.
	maxQuote, maxPath = 60, 512
	// maxOccurrences is how many places of a text that should be unique are
	// listed, and occurrenceBytes how much of the file is searched for them.
	maxOccurrences, occurrenceBytes = 10, 4 << 20
	// killGrace is the time between TERM and KILL for a background command, and
	// killWait how long BashKill waits for its end after KILL.
	killGrace, killWait = 2 * time.Second, 5 * time.Second
	// maxPoints is how many checkpoints a model is told of. shownID is how many digits of an id it is told: 64
	// bits, which nobody finds another checkpoint for.
	maxPoints, shownID = 50, 16
	// maxStepName bounds the name of a checkpoint in bytes, as the agent does.
	maxStepName = 200
	// maxFrontMatter is how many lines of a skill are read for its front matter:
	// twice as many as a description of MaxSkillText and the other fields need.
	// All of these lines are fetched at once, to save a round trip.
	maxFrontMatter = 32
	// temporaryDir is the directory for temporary files in sandboxes.
	temporaryDir = "/tmp"
)
