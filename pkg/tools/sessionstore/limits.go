package sessionstore

import "time"

// MaxSnapshot bounds a snapshot: it is held in memory, and a cluster keeps it
// in a database that is meant to be small.
const MaxSnapshot = 32 << 20

const (
	// maxID bounds an id in bytes, as package launcher does: it is kept beside
	// the snapshot, in an annotation or a line.
	maxID = 4 << 10
	// shownID is how many characters of an id an error's text repeats.
	shownID = 300
)

// The bounds of a store on disk.
const (
	// maxHeader bounds the line in front of a snapshot: an id in JSON, which
	// takes up to six bytes for one, and 200 bytes more.
	maxHeader = 6*maxID + 1<<10
)

// The bounds of a store in a cluster, each with its reason.
const (
	// maxChunk is how much of a snapshot goes into one Secret: the API server
	// takes 1 MiB of data (core/v1 MaxSecretSize).
	maxChunk = 900 << 10
	// maxParallel bounds the requests that are made at once for one snapshot.
	maxParallel = 4
	// loadAttempts bounds how often a snapshot is loaded again because it was
	// replaced while its parts were read, and deleteAttempts how often it is
	// deleted again because it was replaced meanwhile: each time another host
	// has saved.
	loadAttempts, deleteAttempts = 8, 8
	// strayAge is from which age on a part that no head names is one whose host
	// was killed, and not one that is being saved.
	strayAge = 10 * time.Minute
	// saveTimeout bounds a save: well under strayAge, so that no part of it is
	// taken for a stray though clocks differ by minutes. It is long enough for
	// MaxSnapshot at a megabit a second.
	saveTimeout = 5 * time.Minute
	// cleanupTimeout bounds what is cleaned up after a save that failed, also
	// when its context has ended.
	cleanupTimeout = 10 * time.Second
	// saveLength is of how many letters a save's name is: 2^71 of them.
	saveLength = 15
)
