package opener

const (
	// maxTries is how often a path is looked up while others rename what it leads
	// through. Each look takes microseconds, so nobody can keep up for long.
	maxTries = 100
	// maxLinks is how many symbolic links a path may lead through, as in the kernel
	// (path_resolution(7)).
	maxLinks = 40
)
