package ignore

// The bounds of what is read and remembered, each with its reason.
const (
	// maxFile bounds the size of a file of rules: git itself reads up to 100 MiB,
	// and no list that anybody wrote comes near a megabyte.
	maxFile = 16 << 20
	// maxPrefix bounds the paths that each Dir remembers, in bytes; longer ones
	// are put together when they are needed, lest a very deep tree take memory
	// with the square of its depth. It is well under what the system takes for a
	// path.
	maxPrefix = 3 << 10
)
