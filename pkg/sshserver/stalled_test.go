package sshserver

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/podapi"
)

// stalled is an agent that never answers.
type stalled struct{}

func (s stalled) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s stalled) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestReadsThatTheAgentLeavesUnansweredAreBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &reader{
		client: podapi.Over(stalled{}, func() error { return nil }), name: "f", size: 1 << 40, ctx: ctx, cancel: cancel, release: func() {},
		room: &room{limit: 1 << 40},
	}
	defer r.Close()
	taken := 0
	for i := range int64(500) {
		if _, err := r.block(i * 100 * readAhead); err == nil {
			taken++
		} else if !errors.Is(err, errStalled) {
			t.Fatal(err)
		}
	}
	if taken != maxFetches {
		t.Errorf("%d reads are under way", taken)
	}
}
