package sshserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/sftp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/podapi"
)

// FuzzAttributes checks that whatever attributes a client sends are refused, or are ones that a file can have.
func FuzzAttributes(f *testing.F) {
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	f.Add(uint32(4), number(0o100640))
	f.Add(uint32(4), number(0o100640)[:3])
	f.Add(uint32(1), bytes.Repeat([]byte{255}, 8))
	f.Add(uint32(15), slices.Concat(make([]byte, 8), number(1000), number(1000), number(0o7777), number(1), number(math.MaxUint32)))
	f.Add(uint32(1<<31), number(math.MaxUint32))
	f.Fuzz(func(t *testing.T, flags uint32, attrs []byte) {
		r := &sftp.Request{Filepath: "/f", Flags: flags, Attrs: attrs}
		if mode := permOfOpen(r); mode&^fs.ModePerm != 0 {
			t.Errorf("a new file gets the mode %v", mode)
		}
		c, err := changesOf(r)
		if err != nil {
			if c != (changes{}) {
				t.Errorf("%v, and the changes %+v", err, c)
			}
			return
		}
		if c.mode != nil && *c.mode&^(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
			t.Errorf("a mode %v", *c.mode)
		}
		if c.size != nil && *c.size < 0 {
			t.Errorf("a size of %d", *c.size)
		}
	})
}

// nothing is an agent that has no files. It keeps the names that it is asked for.
type nothing struct {
	mu    sync.Mutex
	names []string
}

func (n *nothing) Invoke(_ context.Context, _ string, args, _ any, _ ...grpc.CallOption) error {
	if named, ok := args.(interface{ GetPath() []byte }); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.names = append(n.names, string(named.GetPath()))
	}
	return status.Error(codes.NotFound, "nothing is here")
}

func (n *nothing) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.NotFound, "nothing is here")
}

// FuzzFiles checks that a session of sftp ends, whatever its client sends, that it keeps no file, and that
// the names of files are whole paths.
func FuzzFiles(f *testing.F) {
	begin, id := message(1, []byte{0, 0, 0, 3}), []byte{0, 0, 0, 1}
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	open := func(name string, flags uint32) []byte { return message(3, id, text(name), number(flags), number(0)) }
	f.Add(slices.Concat(begin, open("f", 1), open("../../f\x00", 0x1a), open("a/./b//\n", 2)))
	f.Add(slices.Concat(begin, message(9, id, text("f"), number(4), number(0o644)), message(9, id, text("f"), number(15), number(1))))
	f.Add(slices.Concat(begin, message(18, id, text("a"), text("\x1b[31m")), message(20, id, text(strings.Repeat("a", 5000)), text(""))))
	f.Add(slices.Concat(begin, message(11, id, text("")), message(17, id, text("~")), message(200, id, text("statvfs@openssh.com"), text("/"))))
	f.Add(begin[:5])
	f.Add(message('0'))
	f.Fuzz(func(t *testing.T, data []byte) {
		agent := &nothing{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h := &files{
			conn: &connection{server: &Server{}}, client: podapi.Over(agent, func() error { return nil }), ctx: ctx,
			workdir: "/workspace", handles: make(chan struct{}, maxHandles),
		}
		server := sftp.NewRequestServer(&messages{Channel: &wire{in: bytes.NewReader(data)}}, sftp.Handlers{FileGet: h, FilePut: h, FileCmd: h, FileList: h},
			sftp.WithStartDirectory(h.workdir), sftp.WithRSMaxTxPacket(maxRead))
		_ = server.Serve() // what is no message ends it
		if len(h.handles) != 0 || len(h.writing.files) != 0 {
			t.Errorf("%d handles and %d files are left", len(h.handles), len(h.writing.files))
		}
		for _, name := range agent.names {
			if !strings.HasPrefix(name, "/") {
				t.Errorf("the agent was asked for %q", name)
			}
		}
	})
}
