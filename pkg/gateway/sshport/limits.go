package sshport

import "time"

// The bounds of this package, each with its reason.
const (
	// loginTime is how long a client may take to be let in: people may have to touch a key, or to type
	// its passphrase.
	loginTime = time.Minute
	// loginTries is how many keys a client may show. Agents show all that they have.
	loginTries = 20
	// maxLogins bounds the clients that are not let in yet, of about 100 kB each, and maxLoginsOf those from
	// one address. A login takes milliseconds of a processor, and several ways of the network.
	maxLogins   = 256
	maxLoginsOf = 32
	// maxLogged is how much of a client's name for itself the log has, in bytes: more than a sandbox and a
	// terminal have.
	maxLogged = 128
	// refusalTime is how long a client that was let in, but may not stay, has to learn why.
	refusalTime = 5 * time.Second
	// acceptPause is how long no connection is accepted after an error, such as of too many open files.
	acceptPause = 100 * time.Millisecond
	// maxConnections is how many clients that were let in there may be.
	maxConnections = 1024
	// maxRefusals is how many clients are told at a time why they may not stay. Most open a channel at once,
	// and leave. If there are more, those of the tenant that has the most are not told.
	maxRefusals = 64
)
