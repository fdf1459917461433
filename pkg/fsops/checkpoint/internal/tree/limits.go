package tree

// The bounds on a tree.
const (
	// MaxEntries is how many files a tree has at most.
	MaxEntries = 4 << 20
	// MaxMemory is what a scan of it may take, in bytes.
	MaxMemory = 1 << 30
	// EntryMemory is what a scan has of each file, besides its name: an entry, a record, and a job. It is measured,
	// with what the collector of garbage leaves.
	EntryMemory = 600
	// MaxDepth is how deep directories are in it. It bounds the descriptors that are open at once.
	MaxDepth = 400
)
