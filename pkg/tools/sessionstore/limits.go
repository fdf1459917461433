package sessionstore

import "time"

// MaxSnapshot bounds a snapshot: it is held in memory, and a cluster keeps it
// in a database that is meant to be small.
const MaxSnapshot = 32 << 20

const (
	// maxChunk is how much of a snapshot goes into one Secret: the API server
	// takes 1 MiB of data (core/v1 MaxSecretSize).
	maxChunk = 900 << 10
	// maxParallel bounds the requests that are made at once for one snapshot.
	maxParallel = 4
	// loadAttempts bounds how often a snapshot is loaded again because it was
	// replaced while its chunks were read: each time another host has saved.
	loadAttempts = 8
	// strayAge is from which age on a chunk that belongs to no snapshot is one
	// whose host was killed, and not one that is being saved.
	strayAge = 10 * time.Minute
	// maxHeader bounds the line in front of a snapshot on disk: an id, in
	// JSON.
	maxHeader = 64 << 10
)
