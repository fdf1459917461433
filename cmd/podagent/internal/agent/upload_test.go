package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// lastReply receives to the end of an upload and returns how it ended.
func lastReply(stream grpc.ClientStream, reply interface{ GetAck() *pb.UploadAck }) error {
	err := stream.CloseSend()
	for err == nil {
		if err = stream.RecvMsg(reply); err == nil && reply.GetAck() == nil {
			return nil
		}
	}
	return wire.FromStatus(err)
}

func sum(of []int64) int64 {
	var total int64
	for _, n := range of {
		total += n
	}
	return total
}

func TestUploadsOnASlowDiskShareTheirMemory(t *testing.T) {
	const early, all, size = 8, 64, 10 << 20
	d, a, workdir, socket := onSlowDisk(t)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	var uploads []*upload
	begin := func(n int) {
		for range n {
			uploads = append(uploads, startUpload(t.Context(), c, fmt.Sprint(len(uploads)), size))
		}
	}
	// The first eight may be ahead by their share. Each may also send its first
	// window, even if the others have used up the shares before it began.
	d.take(1+1, nil)
	begin(early)
	held := d.stuck(t, early)
	first := sum(held)
	if first < uploadMemory || first >= uploadMemory+early*wire.UploadWindow {
		t.Errorf("%d uploads hold %d bytes, want %d and a little more", early, first, uploadMemory)
	}
	// Later uploads find nothing left, and may send only their first window.
	begin(all - early)
	held = d.stuck(t, all)
	if got, want := sum(held), first+(all-early)*wire.UploadWindow; got != want {
		t.Errorf("%d uploads hold %d bytes, want %d", all, got, want)
	}
	// They send whole chunks. The shares of the early ones need not be whole
	// chunks.
	if got, want := allSent(t, d, uploads)-all*wire.ChunkSize, sum(held); got > want || got < want-early*wire.ChunkSize {
		t.Errorf("%d bytes were sent and not taken, want %d", got, want)
	}
	// As they continue, each holds at most its share among all uploads.
	d.take(1+1+(wire.AgentWindow/wire.ChunkSize), nil)
	held = d.stuck(t, all)
	for _, n := range held {
		if n < wire.UploadWindow*3/4 || n > uploadMemory/all {
			t.Errorf("one of %d uploads holds %d bytes", all, n)
		}
	}
	if got := sum(held); got > uploadMemory {
		t.Errorf("%d uploads hold %d bytes, want %d at most", all, got, uploadMemory)
	}
	d.take(everything, nil)
	for i, u := range uploads {
		<-u.done
		info, err := os.Stat(filepath.Join(workdir, fmt.Sprint(i)))
		if u.err != nil || err != nil || info.Size() != size {
			t.Errorf("upload %d: %v, %v", i, u.err, err)
		}
	}
	d.over(t)
	if a.uploads.held != 0 || a.uploads.active != 0 {
		t.Errorf("%d uploads still hold %d bytes", a.uploads.active, a.uploads.held)
	}
}

func TestUploadAloneMayFillItsWindow(t *testing.T) {
	d, _, _, socket := onSlowDisk(t)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	d.take(1+1, nil)
	u := startUpload(t.Context(), c, "file", 32<<20)
	if held := d.stuck(t, 1); held[0] != wire.AgentWindow {
		t.Errorf("an upload may hold %d bytes", held[0])
	}
	if sent := allSent(t, d, []*upload{u}); sent != wire.ChunkSize+wire.AgentWindow {
		t.Errorf("%d bytes were sent", sent)
	}
	d.take(everything, nil)
	if <-u.done; u.err != nil {
		t.Error(u.err)
	}
}

func TestPushOnASlowDiskIsHeldBack(t *testing.T) {
	d, _, workdir, socket := onSlowDisk(t)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "file"), make([]byte, 32<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	var moved atomic.Int64
	pushed := make(chan error, 1)
	d.take(1+2, nil)
	go func() {
		_, err := c.Push(t.Context(), source, "tree", podapi.TransferOptions{Progress: moved.Store})
		pushed <- err
	}()
	held := d.stuck(t, 1)[0]
	// Data that waits to fill a chunk comes on top.
	most := held + 2*wire.ChunkSize
	eventually(t, func() bool { return moved.Load() > most-wire.ChunkSize })
	if got := moved.Load(); got > most+wire.ChunkSize {
		t.Errorf("%d bytes were read, only %d may be sent", got, most)
	}
	d.take(everything, nil)
	if err := <-pushed; err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(workdir, "tree", "file")); err != nil || info.Size() != 32<<20 {
		t.Errorf("pushed %v, %v", info, err)
	}
}

func TestUploadThatWaitsForTheDiskEndsWithItsContextOrTheDisksError(t *testing.T) {
	d, a, workdir, socket := onSlowDisk(t)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	if err := c.Healthy(t.Context()); !errors.Is(err, errors.ErrUnsupported) { // this shows that the connection is up
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	d.take(1+2, nil)
	given := startUpload(ctx, c, "given-up", 32<<20)
	failed := startUpload(t.Context(), c, "failed", 32<<20)
	d.stuck(t, 2)
	allSent(t, d, []*upload{given, failed})
	cancel()
	if <-given.done; !errors.Is(given.err, context.Canceled) {
		t.Errorf("an upload that was given up: %v", given.err)
	}
	d.take(1+2, syscall.ENOSPC)
	if <-failed.done; !errors.Is(failed.err, syscall.ENOSPC) {
		t.Errorf("an upload whose disk is full: %v", failed.err)
	}
	d.over(t)
	if entries, err := os.ReadDir(workdir); err != nil || len(entries) != 0 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if a.uploads.held != 0 || a.uploads.active != 0 {
		t.Errorf("%d uploads still hold %d bytes", a.uploads.active, a.uploads.held)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
}

func TestContentOverTheLimitIsInvalid(t *testing.T) {
	d, a, _, socket := onSlowDisk(t)
	d.take(everything, nil)
	conn := raw(t, socket)
	chunk := func(size int) *pb.WriteRequest { return writeData(strings.Repeat("x", size)) }
	if err := writeStream(t, conn, writeHeader("file"), chunk(wire.UploadWindow+1)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("more than the window at first: %v", err)
	}
	exact := writeEnd(sumToProto(fsops.SumOf(bytes.Repeat([]byte("x"), wire.UploadWindow))))
	if err := writeStream(t, conn, writeHeader("file"), chunk(wire.UploadWindow), exact); err != nil {
		t.Errorf("the whole window at first: %v", err)
	}
	for range 63 {
		defer a.uploads.open(nil).release()
	}
	if err := writeStream(t, conn, writeHeader("file"), chunk(wire.UploadWindow), chunk(uploadMemory/64+1)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("more than was acknowledged: %v", err)
	}
	push, err := pb.NewFilesClient(conn).Push(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*pb.PushRequest{
		{Kind: &pb.PushRequest_Header{Header: &pb.PushHeader{Path: []byte("tree")}}},
		{Kind: &pb.PushRequest_Data{Data: make([]byte, wire.UploadWindow+1)}},
	} {
		if push.Send(m) != nil {
			break // the reply gives the reason
		}
	}
	if err := lastReply(push, &pb.PushReply{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a push of more than the window at first: %v", err)
	}
}

func TestSmallFileCostsNoAcks(t *testing.T) {
	d, _, _, socket := onSlowDisk(t)
	d.take(everything, nil)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	for size, requests := range map[int]int{0: 2, 4 << 10: 3, 100 << 10: 3} {
		d.uploads = nil
		if err := c.WriteFile(t.Context(), "file", make([]byte, size), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, u := range d.over(t) {
			if u.messages != requests || u.replies != 1 {
				t.Errorf("a file of %d bytes costs %d messages and %d replies", size, u.messages, u.replies)
			}
		}
	}
}

func TestUploadsHoldNoMoreThanTheirMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := &uploads{}
	credits := map[*credit]int64{} // with the bytes that each has written
	for range 100_000 {
		if len(credits) == 0 || len(credits) < 200 && r.IntN(20) == 0 {
			credits[all.open(func(*pb.UploadAck) error { return nil })] = 0
		}
		for c, taken := range credits { // one at random
			if r.IntN(30) == 0 {
				c.release()
				delete(credits, c)
				break
			}
			before := c.limit
			taken += min(r.Int64N(wire.ChunkSize)+1, c.limit-taken)
			credits[c] = taken
			if err := c.written(taken); err != nil {
				t.Fatal(err)
			}
			if c.limit < before {
				t.Fatalf("the limit fell from %d to %d", before, c.limit)
			}
			if c.limit-taken < wire.ChunkSize {
				t.Fatalf("with %d bytes taken the limit is %d", taken, c.limit)
			}
			break
		}
		var held int64
		for c, taken := range credits {
			held += c.limit - taken
		}
		if most := int64(uploadMemory + len(credits)*wire.UploadWindow); held > most {
			t.Fatalf("%d uploads hold %d bytes, want at most %d", len(credits), held, most)
		}
	}
	for c := range credits {
		c.release()
	}
	if all.held != 0 || all.active != 0 {
		t.Errorf("%d uploads still hold %d bytes", all.active, all.held)
	}
}
