package podapi_test

import (
	"errors"
	"io/fs"
	"iter"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// skippedAtTheEnd returns how many results there are, and what is said to be skipped,
// which must be the last value.
func skippedAtTheEnd[T any](t *testing.T, results iter.Seq2[T, error]) (n int, skipped *fsops.SkippedError) {
	t.Helper()
	for _, err := range results {
		if skipped != nil {
			t.Fatalf("the loop goes on after the error %v", skipped)
		}
		if err == nil {
			n++
			continue
		}
		var ok bool
		if skipped, ok = errors.AsType[*fsops.SkippedError](err); !ok {
			t.Fatal(err)
		}
	}
	if skipped == nil {
		t.Fatal("nothing is said to be skipped")
	}
	return n, skipped
}

// wantSkipped checks what was skipped: so much, each reason of this class, and as many
// of them as there may be.
func wantSkipped(t *testing.T, what string, got *fsops.SkippedError, op string, total int64, class error) {
	t.Helper()
	if got.Total() != total || len(got.Errs) != int(min(total, fsops.MaxSkipped)) {
		t.Errorf("%s: %d errors of %d, want %d in all", what, len(got.Errs), got.Total(), total)
	}
	for _, err := range got.Errs {
		if of, ok := err.(*fs.PathError); !ok || of.Op != op || !errors.Is(err, class) {
			t.Fatalf("%s: skipped for %v, want %s of class %v", what, err, op, class)
		}
	}
}

func TestWhatCannotBeReadArrivesAsOneErrorAtTheEnd(t *testing.T) {
	s := launchertest.Sandbox(t)
	// These nobody can read, root neither: links to themselves, and paths that are
	// longer than the system takes.
	out, err := s.Shell(t.Context(), `
		mkdir links && echo x >links/file && mkdir links/dir
		for i in $(seq 150); do ln -s $i links/$i; done
		long=$(printf '%0200d' 0)
		mkdir deep && cd deep
		for i in $(seq 19); do mkdir $long && cd -P ./$long || exit 1; done
		for i in $(seq 120); do mkdir $long$i; done`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var stats fsops.GrepStats
	n, skipped := skippedAtTheEnd(t, s.Grep(t.Context(), "x", fsops.GrepOptions{Paths: []string{"links"}, Follow: true, Stats: &stats}))
	wantSkipped(t, "grep", skipped, "grep", 150, syscall.ELOOP)
	if n != 1 || stats != (fsops.GrepStats{Files: 1, Matches: 1}) {
		t.Errorf("grep: %d results, stats %+v", n, stats)
	}
	n, skipped = skippedAtTheEnd(t, s.Glob(t.Context(), "links/*/", fsops.GlobOptions{}))
	if wantSkipped(t, "glob", skipped, "glob", 150, syscall.ELOOP); n != 1 {
		t.Errorf("glob: %d results", n)
	}
	n, skipped = skippedAtTheEnd(t, s.List(t.Context(), "deep", fsops.ListOptions{Recursive: true}))
	if wantSkipped(t, "list", skipped, "readdir", 120, syscall.ENAMETOOLONG); n != 19 {
		t.Errorf("list: %d results", n)
	}
}

func TestBinaryFilesArrive(t *testing.T) {
	s := launchertest.Sandbox(t)
	if out, err := s.Shell(t.Context(), `printf 'x\0' >early; { seq 100000; printf 'x\0\n'; } >late; echo x >text`).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var stats fsops.GrepStats
	n, skipped := skippedAtTheEnd(t, s.Grep(t.Context(), "x", fsops.GrepOptions{Stats: &stats}))
	if wantSkipped(t, "late", skipped, "grep", 1, fsops.ErrBinary); n != 1 || stats.Binary != 1 || stats.Files != 2 {
		t.Errorf("%d results, stats %+v", n, stats)
	}
	if binary, ok := errors.AsType[*fsops.BinaryError](skipped); !ok || binary.Offset != 588895 {
		t.Errorf("skipped %v", skipped)
	}
	n, skipped = skippedAtTheEnd(t, s.Grep(t.Context(), "x", fsops.GrepOptions{Paths: []string{"early"}, Stats: &stats}))
	if wantSkipped(t, "early", skipped, "grep", 1, fsops.ErrBinary); n != 0 || stats.Binary != 0 {
		t.Errorf("%d results, stats %+v", n, stats)
	}
}

// An olderAgent sends what it skips among results, and has no count of it.
type olderAgent struct {
	pb.UnimplementedFilesServer
}

func (olderAgent) List(_ *pb.ListRequest, stream grpc.ServerStreamingServer[pb.ListResponse]) error {
	for _, r := range []*pb.ListResponse{
		{Kind: &pb.ListResponse_Unreadable{Unreadable: unreadable("readdir", "a")}},
		{Kind: &pb.ListResponse_Batch{Batch: &pb.AttrBatch{Attrs: []*pb.Attr{{Path: []byte("b")}}}}},
		{Kind: &pb.ListResponse_Unreadable{Unreadable: unreadable("readdir", "c")}},
		{Kind: &pb.ListResponse_End{End: &pb.ListEnd{Count: 1}}},
	} {
		if err := stream.Send(r); err != nil {
			return err
		}
	}
	return nil
}

func (olderAgent) Glob(_ *pb.GlobRequest, stream grpc.ServerStreamingServer[pb.GlobResponse]) error {
	for _, r := range []*pb.GlobResponse{
		{Kind: &pb.GlobResponse_Unreadable{Unreadable: unreadable("glob", "a")}},
		{Kind: &pb.GlobResponse_Batch{Batch: &pb.GlobBatch{Matches: []*pb.GlobMatch{{Path: []byte("b")}}}}},
		{Kind: &pb.GlobResponse_End{End: &pb.GlobEnd{Count: 1, Truncated: true}}},
	} {
		if err := stream.Send(r); err != nil {
			return err
		}
	}
	return nil
}

func (olderAgent) Grep(_ *pb.GrepRequest, stream grpc.ServerStreamingServer[pb.GrepResponse]) error {
	batch := func(results ...*pb.GrepResult) *pb.GrepResponse {
		return &pb.GrepResponse{Kind: &pb.GrepResponse_Batch{Batch: &pb.GrepBatch{Results: results}}}
	}
	for _, r := range []*pb.GrepResponse{
		batch(
			&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_FILE_ERROR, Path: []byte("a"), Error: unreadable("grep", "a")},
			&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_BINARY, Path: []byte("dir/named")},
			&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_MATCH, Path: []byte("b"), Line: 1, Text: []byte("x")},
			&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_FILE_TRUNCATED, Path: []byte("b")},
			&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_BINARY, Path: []byte("left out")},
		),
		batch(
			&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_MATCH, Path: []byte("c"), Line: 1, Text: []byte("x")},
			&pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_BINARY, Path: []byte("c"), Offset: 7},
		),
		{Kind: &pb.GrepResponse_End{End: &pb.GrepEnd{Files: 3, Matches: 2}}},
	} {
		if err := stream.Send(r); err != nil {
			return err
		}
	}
	return nil
}

func unreadable(op, name string) *pb.Error {
	return wire.EncodeError(&fs.PathError{Op: op, Path: name, Err: fs.ErrPermission})
}

// servedBy returns a client of another server.
func servedBy(t *testing.T, files pb.FilesServer) *podapi.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterFilesServer(server, files)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	w := &cable{socket: socket}
	return dialed(t, podapi.DialOptions{Dial: w.dialDirect})
}

func TestWhatAnOlderAgentSkipsIsSaidAtTheEndToo(t *testing.T) {
	c := servedBy(t, olderAgent{})
	n, skipped := skippedAtTheEnd(t, c.List(t.Context(), ".", fsops.ListOptions{Recursive: true}))
	if wantSkipped(t, "list", skipped, "readdir", 2, fs.ErrPermission); n != 1 {
		t.Errorf("list: %d results", n)
	}
	var globbed fsops.GlobStats
	n, skipped = skippedAtTheEnd(t, c.Glob(t.Context(), "*", fsops.GlobOptions{Stats: &globbed}))
	if wantSkipped(t, "glob", skipped, "glob", 1, fs.ErrPermission); n != 1 || globbed != (fsops.GlobStats{Matches: 1, Truncated: true}) {
		t.Errorf("glob: %d results, %+v", n, globbed)
	}
	var stats fsops.GrepStats
	n, skipped = skippedAtTheEnd(t, c.Grep(t.Context(), "x", fsops.GrepOptions{Paths: []string{".", "./dir/named"}, Stats: &stats}))
	if want := (fsops.GrepStats{Files: 3, Matches: 2, Binary: 1, Shortened: 1}); n != 2 || stats != want {
		t.Errorf("grep: %d results, %+v, want %+v", n, stats, want)
	}
	var texts []string
	for _, err := range skipped.Errs {
		texts = append(texts, err.Error())
	}
	want := "grep a: permission denied\ngrep dir/named: file is binary, and was not searched\ngrep c: file is binary from byte 7 on, which was not searched"
	if diff := cmp.Diff(want, strings.Join(texts, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
