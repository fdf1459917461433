package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// slowDisk slows uploads down as a slow disk would: the handler is late to receive
// its next message.
type slowDisk struct {
	mu      sync.Mutex
	change  sync.Cond
	allowed int   // messages that each upload may receive
	err     error // the error that the disk fails with
	uploads []*slowUpload
}

// slowUpload is a call on a slow disk.
type slowUpload struct {
	grpc.ServerStream
	disk     *slowDisk
	messages int // received
	replies  int
	bytes    int64 // received; all are written when the handler waits for the next message
	limit    int64
	waiting  bool
	ended    bool
}

func (d *slowDisk) intercept(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	u := &slowUpload{ServerStream: stream, disk: d, limit: wire.UploadWindow}
	d.mu.Lock()
	d.uploads = append(d.uploads, u)
	d.mu.Unlock()
	defer context.AfterFunc(stream.Context(), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.change.Broadcast()
	})()
	err := handler(service, u)
	d.mu.Lock()
	defer d.mu.Unlock()
	u.ended = true
	return err
}

func (u *slowUpload) RecvMsg(m any) error {
	if err := u.wait(); err != nil {
		return err
	}
	err := u.ServerStream.RecvMsg(m)
	u.disk.mu.Lock()
	defer u.disk.mu.Unlock()
	u.messages++
	if data, ok := m.(interface{ GetData() []byte }); ok && err == nil {
		u.bytes += int64(len(data.GetData()))
	}
	return err
}

func (u *slowUpload) wait() error {
	d := u.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	u.waiting = true
	for u.messages >= d.allowed && d.err == nil && u.Context().Err() == nil {
		d.change.Wait()
	}
	u.waiting = false
	return errors.Join(d.err, u.Context().Err())
}

func (u *slowUpload) SendMsg(m any) error {
	u.disk.mu.Lock()
	u.replies++
	if ack := m.(interface{ GetAck() *pb.UploadAck }).GetAck(); ack != nil {
		u.limit = max(u.limit, ack.Limit)
	}
	u.disk.mu.Unlock()
	return u.ServerStream.SendMsg(m)
}

// take lets each upload receive this many messages, including the header.
func (d *slowDisk) take(messages int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.allowed, d.err = messages, err
	d.change.Broadcast()
}

// everything is the number of messages for a disk that is not slow.
const everything = 1 << 30

// stuck waits until this many uploads are waiting for the disk. It returns how many
// bytes each can still make the agent hold.
func (d *slowDisk) stuck(t *testing.T, uploads int) []int64 {
	t.Helper()
	var held []int64
	eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		held = nil
		for _, u := range d.uploads {
			if u.waiting && u.messages == d.allowed {
				held = append(held, u.limit-u.bytes)
			}
		}
		return len(held) == uploads
	})
	return held
}

// over waits until all calls have ended, and returns them.
func (d *slowDisk) over(t *testing.T) []*slowUpload {
	t.Helper()
	eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, u := range d.uploads {
			if !u.ended {
				return false
			}
		}
		return true
	})
	return d.uploads
}

// eventually waits until so returns true.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hung); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}

// onSlowDisk serves an agent whose disk does not write anything yet.
func onSlowDisk(t *testing.T) (d *slowDisk, a *Agent, workdir, socket string) {
	t.Helper()
	d = &slowDisk{}
	d.change.L = &d.mu
	workdir = t.TempDir()
	socket = filepath.Join(t.TempDir(), "s")
	a = newAgent(Config{Workdir: workdir, Log: slog.New(slog.DiscardHandler)}, &wayOut{}, nil)
	server := a.newServer(grpc.ChainStreamInterceptor(d.intercept))
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return d, a, workdir, socket
}

// upload is an upload by the Go client, in the background.
type upload struct {
	sent atomic.Int64
	err  error
	done chan struct{}
}

func startUpload(ctx context.Context, c *podapi.Client, name string, size int) *upload {
	u := &upload{done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.err = u.run(ctx, c, name, size)
	}()
	return u
}

func (u *upload) run(ctx context.Context, c *podapi.Client, name string, size int) error {
	w, err := c.Create(ctx, name, fsops.WriteOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	for chunk := make([]byte, wire.ChunkSize); int(u.sent.Load()) < size; u.sent.Add(wire.ChunkSize) {
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return second(w.Commit())
}

// allSent waits until the uploads have sent everything that they may while the disk
// writes nothing. It returns that number of bytes.
func allSent(t *testing.T, d *slowDisk, uploads []*upload) int64 {
	t.Helper()
	var may, sent int64
	eventually(t, func() bool {
		may, sent = 0, 0
		d.mu.Lock()
		for _, u := range d.uploads {
			may += u.limit / wire.ChunkSize * wire.ChunkSize
		}
		d.mu.Unlock()
		for _, u := range uploads {
			sent += u.sent.Load()
		}
		return sent >= may
	})
	if sent > may {
		t.Errorf("%d bytes were sent, only %d are allowed", sent, may)
	}
	return sent
}
