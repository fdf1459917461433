package agent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// An hourglass has the time of transfers run out when a test wants.
type hourglass struct {
	turned atomic.Int64 // how often a transfer has begun to wait
	empty  chan time.Time
}

func (h *hourglass) after(time.Duration) <-chan time.Time {
	h.turned.Add(1)
	return h.empty
}

// A peer that neither takes nor sends anything is cut, so that others get its turn.
func TestTransferEndsWhenItsPeerDoesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		begin func(ctx context.Context, c pb.CheckpointsClient, id checkpoint.ID) (receive func() error, err error)
		waits int64 // how often the agent waits for the peer, the last time for long
	}{
		// for the start, to send the manifest, and for what is asked for
		"asks for nothing": {waits: 3, begin: func(ctx context.Context, c pb.CheckpointsClient, id checkpoint.ID) (func() error, error) {
			return beginExport(ctx, c, &pb.ExportCheckpointStart{Id: string(id)})
		}},
		// for the start, to send the manifest, and to send parts, the first of which fits into buffers
		"takes nothing": {waits: 4, begin: func(ctx context.Context, c pb.CheckpointsClient, id checkpoint.ID) (func() error, error) {
			return beginExport(ctx, c, &pb.ExportCheckpointStart{Id: string(id), All: true})
		}},
		// for the start, and for the manifest
		"sends nothing": {waits: 2, begin: func(ctx context.Context, c pb.CheckpointsClient, id checkpoint.ID) (func() error, error) {
			stream, err := c.Import(ctx)
			if err != nil {
				return nil, err
			}
			start := &pb.ImportCheckpointRequest_Start{Start: &pb.ImportCheckpointStart{Id: string(id)}}
			return func() error { return second(stream.Recv()) }, stream.Send(&pb.ImportCheckpointRequest{Kind: start})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			glass := &hourglass{empty: make(chan time.Time)}
			a, client, id := serveTransfers(t, glass)
			ctx, cancel := context.WithTimeout(t.Context(), hung)
			defer cancel()
			receive, err := test.begin(ctx, client, id)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return glass.turned.Load() == test.waits })
			if n := len(a.checkpoints.sent) + len(a.checkpoints.received); n != 1 {
				t.Errorf("there are %d transfers", n)
			}
			close(glass.empty)
			for err == nil {
				err = receive()
			}
			if grpcstatus.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "neither taken nor sent") {
				t.Error(err)
			}
			eventually(t, func() bool { return len(a.checkpoints.sent)+len(a.checkpoints.received) == 0 })
		})
	}
}

func beginExport(ctx context.Context, c pb.CheckpointsClient, start *pb.ExportCheckpointStart) (receive func() error, err error) {
	stream, err := c.Export(ctx)
	if err != nil {
		return nil, err
	}
	return func() error { return second(stream.Recv()) }, stream.Send(&pb.ExportCheckpointRequest{Kind: &pb.ExportCheckpointRequest_Start{Start: start}})
}

// serveTransfers serves an agent with a checkpoint of some megabytes.
func serveTransfers(t *testing.T, glass *hourglass) (a *Agent, client pb.CheckpointsClient, id checkpoint.ID) {
	t.Helper()
	workdir, dir := t.TempDir(), t.TempDir()
	put(t, workdir, map[string]string{"f": noise(4 << 20)})
	a = newAgent(Config{Workdir: workdir, Checkpoints: filepath.Join(dir, "store"), Log: slog.New(slog.DiscardHandler)}, &wayOut{}, nil)
	if !a.openStore() {
		t.Fatal(a.checkpoints.missing)
	}
	a.checkpoints.after = glass.after
	c, err := a.checkpoints.store.Create(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := a.newServer()
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return a, rawClient(t, socket), c.ID
}

// rawClient returns a client whose streams hold 64 KiB that it has not taken.
func rawClient(t *testing.T, socket string) pb.CheckpointsClient {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewCheckpointsClient(conn)
}

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // which never fails
	return string(b)
}
