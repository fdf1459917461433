package agent

import (
	"fmt"
	"sync"
	"syscall"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// uploads divides uploadMemory among the uploads under way. gRPC cannot do so: its
// windows are the same for all streams, and it gives back the connection's window as
// soon as bytes arrive.
//
// The uploads never hold more than uploadMemory and the wire.UploadWindow that each of
// them has without asking.
type uploads struct {
	mu     sync.Mutex
	active int
	held   int64 // the sum of all credits' held
}

// credit is how much of one upload's content the caller may send.
type credit struct {
	uploads *uploads
	ack     func(*pb.UploadAck) error
	limit   int64 // that the caller was told
	// held is how much the upload may make the agent hold until more is written.
	held int64
}

// open counts an upload in. ack tells its caller of more credit. The credit must be
// released.
func (u *uploads) open(ack func(*pb.UploadAck) error) *credit {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active++
	u.held += wire.UploadWindow
	return &credit{uploads: u, ack: ack, limit: wire.UploadWindow, held: wire.UploadWindow}
}

// release gives back what the upload held, and counts it out.
func (c *credit) release() {
	c.uploads.mu.Lock()
	defer c.uploads.mu.Unlock()
	c.uploads.active--
	c.uploads.held -= c.held
}

// check refuses content beyond what the caller may send.
func (c *credit) check(received int64) error {
	if received > c.limit {
		return fmt.Errorf("%d bytes of content are over the limit of %d: %w", received, c.limit, syscall.EINVAL)
	}
	return nil
}

// written notes that the agent has written so many bytes of the content in all, and no
// longer holds them. It tells the caller when it may send a good deal more.
func (c *credit) written(taken int64) error {
	if taken < wire.UploadWindow/4 || !c.extend(taken) {
		return nil // most files are small, and need no ack
	}
	return c.ack(&pb.UploadAck{Limit: c.limit})
}

// extend raises the limit by the free part of the upload's share, if that is a quarter of
// the share or more. More uploads make the share smaller, and the limit then stays until
// the upload holds no more than its share.
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
