package mcpserver

import "time"

// The limits that hosts can set, with their defaults.
const (
	// DefaultMaxSessions bounds the sessions of a Handler at one time: each may
	// have its own sandbox, and a person has a few clients.
	DefaultMaxSessions = 16
	// DefaultIdleTimeout is how long a session lasts after its last request. Some
	// clients leave without a word, but a person may also be away for a meal.
	DefaultIdleTimeout = time.Hour
	// MinToken is the least length of a token in bytes: nobody can try them all.
	MinToken = 16
)

// The internal limits.
const (
	// maxResource bounds a file that is read as a resource, in bytes. It is sent as
	// one message, which is a third larger if the file is not text.
	maxResource = 8 << 20
	// progressInterval is the time between messages about a command's output:
	// short enough for a person who watches.
	progressInterval = 200 * time.Millisecond
	// maxProgress bounds the text of one such message, in bytes. It has the latest
	// output.
	maxProgress = 4 << 10
	// maxRequest bounds a request in bytes: files that a model writes are far
	// smaller.
	maxRequest = 16 << 20
	// requestTimeout bounds the time to receive a request, and responseTimeout the
	// time in which the client takes the next part of a response. A slower client
	// is gone, or blocks the sender.
	requestTimeout  = time.Minute
	responseTimeout = time.Minute
	// roomPatience is how long a new session waits for another one to end.
	roomPatience = time.Second
	// maxReplayed bounds the answers of all sessions that are kept for clients
	// whose connection was cut, in bytes: enough for a few of the largest.
	maxReplayed = 32 << 20
)
