package e2b

import "time"

// The bounds of envd's calls, each with its reason.
const (
	// messageLimit is how large a message of a caller may be, in bytes, also decompressed: standard
	// input of three megabytes in base64, as REST takes it.
	messageLimit = 4 << 20
	// compressFrom is how large an answer is that is compressed if the caller takes that, in bytes:
	// below, it costs more time than it saves.
	compressFrom = 16 << 10
	// keepaliveDefault is how long a stream is silent if its caller does not ask for less: proxies
	// close those of two minutes.
	keepaliveDefault = 90 * time.Second
	// tagLimit is how long the tag of a process may be, in bytes: names are shorter. It is read in the
	// environment of the process, of which environLimit bytes count: more than any but a hostile one
	// has. A list has the tags of tagsListed processes: each takes a call of its own.
	// A process that just turns into another program has none for a moment: so it is read tagTries times.
	tagLimit     = 256
	environLimit = 128 << 10
	tagsListed   = 64
	tagTries     = 3
	// idsKept is how many processes are remembered that input was sent to, at some 200 bytes each: more
	// than have terminals at a time.
	idsKept = 4096
)
