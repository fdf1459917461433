package mcpserver

import "time"

// The bounds that hosts may choose, with their defaults.
const (
	// DefaultMaxSessions is how many sessions a Handler has at once: each may
	// have a sandbox of its own, and a person has a few clients.
	DefaultMaxSessions = 16
	// DefaultIdleTimeout is how long a session lasts after its last request: a
	// client may go without saying so, and a person may be away for a meal.
	DefaultIdleTimeout = time.Hour
	// MinToken is how many bytes a token has at least, so that nobody can try
	// them all.
	MinToken = 16
)

// The bounds that are nobody's business but the package's own.
const (
	// maxResource bounds a file that is read as a resource: it is one message, with
	// a third more if it is no text.
	maxResource = 8 << 20
	// progressInterval is how often a client hears of what a command prints:
	// often enough for who watches.
	progressInterval = 200 * time.Millisecond
	// maxProgress bounds the text of one message: of more, the latest is shown.
	maxProgress = 4 << 10
	// maxRequest bounds a request in bytes: a file that a model writes is far
	// smaller.
	maxRequest = 16 << 20
	// requestTimeout bounds the time that a request takes to come in, and
	// responseTimeout that in which the client takes the next part of a response:
	// one that does not is gone, or holds up what waits for it.
	requestTimeout  = time.Minute
	responseTimeout = time.Minute
	// roomPatience is how long a new session waits for one that is about to end.
	roomPatience = time.Second
	// maxReplayed bounds what is kept, of all sessions, for clients whose
	// connection was cut: some answers of the largest kind.
	maxReplayed = 32 << 20
)
