package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// An endlessFile is a file without an end. It has a size only when it is opened.
type endlessFile struct {
	pb.UnimplementedFilesServer
	size int64
}

func (f endlessFile) Read(_ *pb.ReadRequest, stream grpc.ServerStreamingServer[pb.ReadResponse]) error {
	header := &pb.ReadHeader{Attr: &pb.Attr{Size: f.size, Mode: 0o644}}
	err := stream.Send(&pb.ReadResponse{Kind: &pb.ReadResponse_Header{Header: header}})
	for data := make([]byte, 64<<10); err == nil; {
		err = stream.Send(&pb.ReadResponse{Kind: &pb.ReadResponse_Data{Data: data}})
	}
	return err
}

func TestFileOfALyingAgentDoesNotFillTheDisk(t *testing.T) {
	const endless = 1 << 40
	for name, test := range map[string]struct {
		announced, opened int64
		want              func(error) bool
	}{
		"as long as it said": {endless, endless, func(err error) bool {
			return errors.Is(err, syscall.ENOSPC) && strings.Contains(err.Error(), "MiB are free")
		}},
		"longer than it said": {100, endless, isErr(podapi.ErrProtocol)},
		"not empty after all": {0, endless, func(err error) bool { return strings.Contains(err.Error(), "was empty") }},
		"without a size":      {0, 0, func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), hung)
			defer cancel()
			dir := smallDisk(t)
			sandbox := &launcher.Sandbox{Client: clientOf(t, endlessFile{size: test.opened})}
			attr := fsops.Attr{Path: "f", Size: test.announced, Mode: 0o644}
			_, err := (&app{streams: streams{err: io.Discard}}).pullFile(ctx, sandbox, attr, filepath.Join(dir, "f"))
			if err == nil || ctx.Err() != nil || !test.want(err) {
				t.Errorf("the error is %v", err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left is %v, %v", left, err)
			}
		})
	}
}

// smallDisk returns a directory with room for 8 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Fatalf("cannot mount a tmpfs, for which this test needs root and CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// clientOf returns a client of an agent that serves these files, and nothing else.
func clientOf(t *testing.T, files pb.FilesServer) *podapi.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterFilesServer(server, files)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	client, err := podapi.Dial(podapi.DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
