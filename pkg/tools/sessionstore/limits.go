package sessionstore

import "time"

// MaxSnapshot bounds a snapshot, in bytes: it is held in memory, and a cluster
// keeps it in a database that should stay small.
const MaxSnapshot = 32 << 20

const (
	// maxID bounds an id in bytes, as package launcher does. The id is kept with
	// the snapshot, in an annotation or a line.
	maxID = 4 << 10
	// shownID is how many characters of an id an error shows.
	shownID = 300
)

// The limit of a store on disk.
const (
	// maxHeader bounds the line before a snapshot, in bytes: an id in JSON, which
	// may take six bytes for one, and 200 bytes more.
	maxHeader = 6*maxID + 1<<10
)

// The limits of a store in a cluster, each with its reason.
const (
	// maxChunk bounds the data in one Secret, in bytes: the API server accepts 1
	// MiB (core/v1 MaxSecretSize).
	maxChunk = 900 << 10
	// maxParallel bounds the simultaneous requests for one snapshot.
	maxParallel = 4
	// loadAttempts and deleteAttempts bound how often a snapshot is loaded or
	// deleted again because another host replaced it meanwhile.
	loadAttempts, deleteAttempts = 8, 8
	// strayAge is the age at which a part that no head names is a stray of a killed
	// host. A younger one may belong to a save in progress.
	strayAge = 10 * time.Minute
	// saveTimeout bounds a save. It is well under strayAge, so that no part of a
	// save counts as a stray even if clocks differ by minutes. It is long enough
	// for MaxSnapshot at one megabit a second.
	saveTimeout = 5 * time.Minute
	// cleanupTimeout bounds the cleanup after a failed save, which runs even when
	// the context has ended.
	cleanupTimeout = 10 * time.Second
	// saveLength is the number of letters in a save's name: 2^71 names.
	saveLength = 15
)
