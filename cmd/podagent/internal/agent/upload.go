package agent

import (
	"fmt"
	"sync"
	"syscall"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// uploads divides uploadMemory among the uploads under way. gRPC can do it
// neither for one stream nor for all: its windows are the same for every
// stream, and it gives back the connection's as soon as bytes arrive.
//
// What the uploads hold never exceeds uploadMemory by more than the
// wire.UploadWindow that each of them has without asking.
type uploads struct {
	mu     sync.Mutex
	active int
	held   int64 // the sum of all credits' held
}

// credit is how much of one upload's content the caller may send.
type credit struct {
	uploads *uploads
	ack     func(*pb.UploadAck) error
	limit   int64 // what the caller was told
	// held is what the upload may make the agent hold, until more is taken.
	held int64
}

// begin notes an upload, whose caller ack tells more. Its credit must be ended.
func (u *uploads) begin(ack func(*pb.UploadAck) error) *credit {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active++
	u.held += wire.UploadWindow
	return &credit{uploads: u, ack: ack, limit: wire.UploadWindow, held: wire.UploadWindow}
}

// end gives back what the upload held.
func (c *credit) end() {
	c.uploads.mu.Lock()
	defer c.uploads.mu.Unlock()
	c.uploads.active--
	c.uploads.held -= c.held
}

// check refuses content of which more was sent than the caller may.
func (c *credit) check(received int64) error {
	if received > c.limit {
		return fmt.Errorf("%d bytes of content are over the limit of %d: %w", received, c.limit, syscall.EINVAL)
	}
	return nil
}

// take notes that the first bytes of the content, in all so many, are no longer
// held, and tells the caller when it may send a good deal more.
func (c *credit) take(taken int64) error {
	if taken < wire.UploadWindow/4 || !c.extend(taken) {
		return nil // most files are small, and cost no ack
	}
	return c.ack(&pb.UploadAck{Limit: c.limit})
}

// extend raises the limit by what is free of the upload's share, if that is a
// quarter of it or more. When others have come its share is less, and so its
// limit stays until it holds no more than that.
func (c *credit) extend(taken int64) bool {
	u := c.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	others := u.held - c.held
	share := min(wire.AgentWindow, uploadMemory/int64(u.active), uploadMemory-others)
	share = max(wire.UploadWindow, share)
	extended := taken+share-c.limit >= share/4
	if extended {
		c.limit = taken + share
	}
	c.held = max(wire.UploadWindow, c.limit-taken)
	u.held = others + c.held
	return extended
}
