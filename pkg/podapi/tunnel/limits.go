package tunnel

// The bounds of what the connections of one side may have under way.
const (
	// firstWindow is how far a sender may be ahead of the receiver in any case,
	// whatever other connections do: a request, and enough to grow from.
	firstWindow = 32 << 10
	// largestWindow is the most: by a port-forward, what fills the link (see
	// podapi/wire.AgentWindow, and the uploads that it was measured with).
	largestWindow = 8 << 20
	// sharedMemory is what the connections of one side share beyond the first
	// windows: four of the largest, and 512 KiB each for 64.
	sharedMemory = 32 << 20
)
