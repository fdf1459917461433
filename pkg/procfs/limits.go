package procfs

// The bounds of what is read, each with its reason.
const (
	// maxRead bounds what is read of a file, in one system call. An environment of this
	// length is rare, and a sandbox has few processes with one. It is not smaller
	// because a shell hands on its variables in another order than it got them, so that
	// the one that is looked for may be the last.
	maxRead = 64 << 10
)
