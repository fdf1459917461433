package tunnel

import pb "github.com/podagent/podagent/pkg/podapi/podapiv1"

// The bounds of what the connections of one side may have under way.
const (
	// firstWindow is how far a sender may be ahead of the receiver at first: a request, and
	// enough to grow from. More than 128 connections divide firstMemory instead, but each has
	// leastWindow whatever others do: 500 that move bytes hold three buffers of that size each.
	firstWindow = pb.FirstDialWindow
	firstMemory = 4 << 20
	leastWindow = pb.LeastDialWindow
	// largestWindow is the most: by a port-forward, what fills the link (see
	// podapi/wire.AgentWindow, and the uploads that it was measured with).
	largestWindow = 8 << 20
	// sharedMemory is what the connections of one side share beyond the first
	// windows: nearly four of the largest, and 448 KiB each for 64. Each that is open
	// takes openCost of it away, so that 512, which is as many as an agent has, share
	// nothing: what all of them may send is also what waits in the sender's memory.
	sharedMemory = 32 << 20
	openCost     = sharedMemory / 512
)
