package agent

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// transfers bounds how many checkpoints are sent, or received, at a time: each takes some memory.
type transfers chan struct{}

func newTransfers() transfers { return make(transfers, maxTransfers) }

// begin waits until there may be one more.
func (t transfers) begin(ctx context.Context) (end func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// patient is the stream of a transfer. It waits for its peer for transferIdle at most, so that one that neither takes nor
// sends anything keeps no other transfer waiting.
type patient[Req, Res any] struct {
	grpc.BidiStreamingServer[Req, Res]
	after func(time.Duration) <-chan time.Time // time.After
}

func (s patient[Req, Res]) Recv() (m *Req, err error) {
	type received struct {
		m   *Req
		err error
	}
	done := make(chan received, 1)
	go func() {
		m, err := s.BidiStreamingServer.Recv()
		done <- received{m, err}
	}()
	select {
	case r := <-done:
		return r.m, r.err
	case <-s.after(transferIdle):
		return nil, errIdleTransfer
	}
}

func (s patient[Req, Res]) Send(m *Res) error {
	done := make(chan error, 1)
	go func() { done <- s.BidiStreamingServer.Send(m) }()
	select {
	case err := <-done:
		return err
	case <-s.after(transferIdle):
		return errIdleTransfer
	}
}

// errIdleTransfer ends a transfer, and with it what the stream waits for.
var errIdleTransfer = fmt.Errorf("%w: the other side of the transfer has neither taken nor sent anything for %v", wire.ErrUnavailable, transferIdle)
