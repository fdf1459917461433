package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// writeStream sends messages of Write and returns how the call ended.
func writeStream(t *testing.T, conn *grpc.ClientConn, messages ...*pb.WriteRequest) error {
	t.Helper()
	stream, err := pb.NewFilesClient(conn).Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if stream.Send(m) != nil {
			break // the reply gives the reason
		}
	}
	return lastReply(stream, &pb.WriteReply{})
}

func writeHeader(path string) *pb.WriteRequest {
	return &pb.WriteRequest{Kind: &pb.WriteRequest_Header{Header: &pb.WriteHeader{Path: []byte(path)}}}
}

func writeData(data string) *pb.WriteRequest {
	return &pb.WriteRequest{Kind: &pb.WriteRequest_Data{Data: []byte(data)}}
}

func writeEnd(sum *pb.Sum) *pb.WriteRequest {
	return &pb.WriteRequest{Kind: &pb.WriteRequest_End{End: &pb.WriteEnd{Sum: sum}}}
}

func TestIncompleteWriteLeavesTheOldContent(t *testing.T) {
	workdir, socket := serveTest(t, nil)
	conn := raw(t, socket)
	right := sumToProto(fsops.SumOf([]byte("new")))
	for what, test := range map[string]struct {
		messages []*pb.WriteRequest
		want     error
	}{
		"cut before its end":       {[]*pb.WriteRequest{writeHeader("file"), writeData("new")}, podapi.ErrCut},
		"cut before its data":      {[]*pb.WriteRequest{writeHeader("file")}, podapi.ErrCut},
		"empty":                    {nil, podapi.ErrCut},
		"of another checksum":      {[]*pb.WriteRequest{writeHeader("file"), writeData("new"), writeEnd(&pb.Sum{Size: 3, Crc32C: 1})}, fsops.ErrChecksum},
		"of another size":          {[]*pb.WriteRequest{writeHeader("file"), writeData("ne"), writeEnd(right)}, fsops.ErrChecksum},
		"without a sum":            {[]*pb.WriteRequest{writeHeader("file"), writeData("new"), writeEnd(nil)}, fsops.ErrChecksum},
		"that begins with data":    {[]*pb.WriteRequest{writeData("new"), writeEnd(right)}, syscall.EINVAL},
		"with a second header":     {[]*pb.WriteRequest{writeHeader("file"), writeHeader("file")}, syscall.EINVAL},
		"with an empty message":    {[]*pb.WriteRequest{writeHeader("file"), {}}, syscall.EINVAL},
		"with a message too large": {[]*pb.WriteRequest{writeHeader("file"), writeData(strings.Repeat("x", wire.MaxMessage+1))}, podapi.ErrTooLarge},
	} {
		if err := os.WriteFile(filepath.Join(workdir, "file"), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := writeStream(t, conn, test.messages...); !errors.Is(err, test.want) {
			t.Errorf("a write %s: %v, want %v", what, err, test.want)
		}
		entries, err := os.ReadDir(workdir)
		if err != nil || len(entries) != 1 {
			t.Errorf("after a write %s there are %v, %v", what, entries, err)
		}
		if got, _ := os.ReadFile(filepath.Join(workdir, "file")); string(got) != "old" {
			t.Errorf("after a write %s the content is %q", what, got)
		}
	}
	if err := writeStream(t, conn, writeHeader("file"), writeData("new"), writeEnd(right)); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(filepath.Join(workdir, "file")); string(got) != "new" {
		t.Errorf("after a whole write the content is %q", got)
	}
}

func TestIncompletePushIsAnError(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	header := &pb.PushRequest{Kind: &pb.PushRequest_Header{Header: &pb.PushHeader{Path: []byte("dir")}}}
	empty := strings.Repeat("\x00", 1024) // a tar file without entries
	data := &pb.PushRequest{Kind: &pb.PushRequest_Data{Data: []byte(empty)}}
	end := func(sum fsops.Sum) *pb.PushRequest {
		return &pb.PushRequest{Kind: &pb.PushRequest_End{End: &pb.PushEnd{Sum: sumToProto(sum)}}}
	}
	for what, test := range map[string]struct {
		messages []*pb.PushRequest
		want     error
	}{
		"cut":                   {[]*pb.PushRequest{header, data}, podapi.ErrCut},
		"of another checksum":   {[]*pb.PushRequest{header, data, end(fsops.Sum{Size: 1024})}, fsops.ErrChecksum},
		"that begins with data": {[]*pb.PushRequest{data}, syscall.EINVAL},
		"without a sum":         {[]*pb.PushRequest{header, data, {Kind: &pb.PushRequest_End{End: &pb.PushEnd{}}}}, fsops.ErrChecksum},
		"with trailing data outside the checksum": {[]*pb.PushRequest{header, data, data, end(fsops.SumOf([]byte(empty)))}, fsops.ErrChecksum},
		"whole":                     {[]*pb.PushRequest{header, data, end(fsops.SumOf([]byte(empty)))}, nil},
		"whole, with trailing data": {[]*pb.PushRequest{header, data, data, end(fsops.SumOf([]byte(empty + empty)))}, nil},
	} {
		stream, err := pb.NewFilesClient(conn).Push(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range test.messages {
			if stream.Send(m) != nil {
				break
			}
		}
		if err := lastReply(stream, &pb.PushReply{}); !errors.Is(err, test.want) {
			t.Errorf("a push %s: %v, want %v", what, err, test.want)
		}
	}
}

func TestFileCallsRefuseBadInput(t *testing.T) {
	_, socket := serveTest(t, nil)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	ctx := t.Context()
	read := func(opts fsops.ReadOptions) error {
		_, err := c.Read(ctx, "f", &strings.Builder{}, opts)
		return err
	}
	lines := func(opts fsops.LineOptions) error { _, err := c.ReadLines(ctx, "f", opts); return err }
	glob := func(pattern string) error {
		for _, err := range c.Glob(ctx, pattern, fsops.GlobOptions{}) {
			return err
		}
		return nil
	}
	grep := func(pattern string) error {
		for _, err := range c.Grep(ctx, pattern, fsops.GrepOptions{}) {
			return err
		}
		return nil
	}
	edit := func(edits ...fsops.Edit) error { _, err := c.Edit(ctx, "f", edits, fsops.EditOptions{}); return err }
	if err := c.WriteFile(ctx, "f", []byte("content"), 0o666); err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]error{
		"a negative offset":         read(fsops.ReadOptions{Offset: -1}),
		"a negative length":         read(fsops.ReadOptions{Length: -1}),
		"a negative line":           lines(fsops.LineOptions{First: -1}),
		"too many bytes of lines":   lines(fsops.LineOptions{MaxBytes: fsops.DefaultLineBytes + 1}),
		"an invalid glob":           glob("[a"),
		"an empty glob":             glob(""),
		"an invalid regexp":         grep("a("),
		"no edits":                  edit(),
		"an edit of nothing":        edit(fsops.Edit{New: []byte("x")}),
		"an edit that does nothing": edit(fsops.Edit{Old: []byte("c"), New: []byte("c")}),
	} {
		if !errors.Is(got, syscall.EINVAL) {
			t.Errorf("%s: %v, want an invalid argument", what, got)
		}
	}
	for _, name := range []string{"", "a\x00b"} {
		for op, err := range map[string]error{
			"stat":    second(c.Stat(ctx, name)),
			"read":    second(c.ReadFile(ctx, name)),
			"write":   c.WriteFile(ctx, name, nil, 0o666),
			"edit":    second(c.Edit(ctx, name, []fsops.Edit{{Old: []byte("a"), New: []byte("b")}}, fsops.EditOptions{})),
			"mkdir":   c.Mkdir(ctx, name, 0o777),
			"remove":  c.Remove(ctx, name),
			"rename":  c.Rename(ctx, name, "x"),
			"copy":    c.Copy(ctx, name, "x", fsops.CopyOptions{}),
			"chmod":   c.Chmod(ctx, name, 0o600),
			"symlink": c.Symlink(ctx, "x", name),
		} {
			var pathErr *fs.PathError
			var linkErr *os.LinkError
			if !errors.Is(err, syscall.EINVAL) || !errors.As(err, &pathErr) && !errors.As(err, &linkErr) {
				t.Errorf("%s of %q: %v, want an invalid argument", op, name, err)
			}
		}
	}
}
