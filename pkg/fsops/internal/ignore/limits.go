package ignore

// The bounds of what is read and remembered, each with its reason.
const (
	// maxFile bounds the size of a file of rules: git itself reads up to 100 MiB,
	// and hand-written lists stay far below a megabyte.
	maxFile = 16 << 20
	// maxPrefix bounds the paths that each Dir remembers, in bytes; longer ones are
	// put together when they are needed. Otherwise a very deep tree would take
	// memory with the square of its depth. It is well below the system's limit of a
	// path.
	maxPrefix = 3 << 10
)
