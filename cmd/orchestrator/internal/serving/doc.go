// Package serving is what an HTTP server needs that strangers can reach, beside its handler: a
// certificate that is read again when its files change ([KeyPair]), and a bound on connections
// ([Limit]).
package serving

import "time"

const (
	// readAgain is how long the files of a certificate are taken to be unchanged. They are read by
	// handshakes, of which a busy server has many a second.
	readAgain = time.Second
	// fileLimit is how large such a file may be, in bytes: as large as a Secret.
	fileLimit = 1 << 20
)
