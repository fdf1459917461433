package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// A middleman passes on the calls of an agent's transfers, and does what a test wants between the answers.
type middleman struct {
	pb.UnimplementedCheckpointsServer
	agent    pb.CheckpointsClient
	exports  atomic.Int64
	exported func(ctx context.Context, call int64, m *pb.ExportCheckpointResponse) error
	imported func(ctx context.Context, m *pb.ImportCheckpointResponse) error
	// goes, if it is not nil and closed, ends an export, and closes gone.
	goes, gone chan struct{}
}

func (m *middleman) Export(caller exportStream) error {
	call := m.exports.Add(1)
	agent, err := m.agent.Export(caller.Context())
	if err != nil {
		return err
	}
	passed := make(chan error, 1)
	go func() {
		passed <- passAnswers(caller, agent, func(r *pb.ExportCheckpointResponse) error { return m.exported(caller.Context(), call, r) })
	}()
	select {
	case err := <-passed:
		return err
	case <-m.goes:
		defer close(m.gone)
		return grpcstatus.Error(codes.Unavailable, "it goes")
	}
}

func (m *middleman) Import(caller importStream) error {
	agent, err := m.agent.Import(caller.Context())
	if err != nil {
		return err
	}
	return passAnswers(caller, agent, func(r *pb.ImportCheckpointResponse) error { return m.imported(caller.Context(), r) })
}

func passAnswers[Req, Res any](caller grpc.BidiStreamingServer[Req, Res], agent grpc.BidiStreamingClient[Req, Res], between func(*Res) error) error {
	go func() {
		for {
			r, err := caller.Recv()
			if err != nil || agent.Send(r) != nil {
				_ = agent.CloseSend()
				return
			}
		}
	}()
	for {
		r, err := agent.Recv()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = between(r)
		}
		if err == nil {
			err = caller.Send(r)
		}
		if err != nil {
			return err
		}
	}
}

// between returns a client of an agent, by way of a middleman.
func (m *middleman) between(t *testing.T, socket string) *podapi.Client {
	t.Helper()
	m.agent = pb.NewCheckpointsClient(raw(t, socket))
	server := grpc.NewServer()
	pb.RegisterCheckpointsServer(server, m)
	path := filepath.Join(t.TempDir(), "m")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return dial(t, podapi.DialOptions{Dial: unixDialer(path)})
}

// copied are two agents, of which one has a checkpoint with two files of some megabytes.
type copied struct {
	from, to string // sockets
	store    string // of the second one
	id       checkpoint.ID
	files    [2]checkpoint.Hash
}

func toBeCopied(t *testing.T) (c copied) {
	t.Helper()
	var workdir string
	workdir, c.from = serveTest(t, func(c *Config) { c.Checkpoints = t.TempDir() })
	text := noise(4 << 20)
	for i, name := range []string{"a", "b"} {
		half := text[i*(2<<20):][:2<<20]
		put(t, workdir, map[string]string{name: half})
		c.files[i] = sha256.Sum256([]byte(half))
	}
	made, err := dial(t, podapi.DialOptions{Dial: unixDialer(c.from)}).Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.id, c.store = made.ID, t.TempDir()
	_, c.to = serveTest(t, func(config *Config) { config.Checkpoints = c.store })
	return c
}

// loser removes one of the files from the second store just before the other one is there: then one is always missing.
func (c *copied) loser(t *testing.T, times int) func(*pb.ExportCheckpointResponse) error {
	var arriving checkpoint.Hash
	var rest int64
	sent := map[checkpoint.Hash]bool{}
	return func(m *pb.ExportCheckpointResponse) error {
		for _, p := range m.GetParts().GetParts() {
			if len(p.Object) > 0 {
				arriving, rest = checkpoint.Hash(p.Object), p.Size
			}
			if rest -= int64(len(p.Data)); rest > 0 || arriving != c.files[0] && arriving != c.files[1] {
				continue
			}
			sent[arriving] = true
			other := c.files[0]
			if arriving == other {
				other = c.files[1]
			}
			if !sent[other] || times == 0 {
				continue
			}
			times--
			path := filepath.Join(c.store, "objects", other.String())
			eventually(t, func() bool { return os.Remove(path) == nil })
		}
		return nil
	}
}

func TestCopyIsTriedAgain(t *testing.T) {
	unavailable := func(*pb.ExportCheckpointResponse) error { return grpcstatus.Error(codes.Unavailable, "it goes down") }
	const often = 1000
	for name, test := range map[string]struct {
		// exported returns what happens between the answers of the source.
		exported func(t *testing.T, c *copied) func(call int64, m *pb.ExportCheckpointResponse) error
		calls    int64 // of the source
		want     error
	}{
		"when something went once": {calls: 1, exported: func(t *testing.T, c *copied) func(int64, *pb.ExportCheckpointResponse) error {
			lose := c.loser(t, 1)
			return func(_ int64, m *pb.ExportCheckpointResponse) error { return lose(m) }
		}},
		"when something went whenever the rest came": {calls: 2, exported: func(t *testing.T, c *copied) func(int64, *pb.ExportCheckpointResponse) error {
			lose := c.loser(t, commitTries)
			return func(_ int64, m *pb.ExportCheckpointResponse) error { return lose(m) }
		}},
		"but not for ever when something always goes": {calls: 3, want: podapi.ErrUnavailable, exported: func(t *testing.T, c *copied) func(int64, *pb.ExportCheckpointResponse) error {
			lose := c.loser(t, often)
			return func(_ int64, m *pb.ExportCheckpointResponse) error { return lose(m) }
		}},
		"when the source was gone twice": {calls: 3, exported: func(*testing.T, *copied) func(int64, *pb.ExportCheckpointResponse) error {
			return func(call int64, m *pb.ExportCheckpointResponse) error {
				if call < 3 && m.GetParts() != nil {
					return unavailable(m)
				}
				return nil
			}
		}},
		"but not for ever when the source is gone": {calls: 3, want: podapi.ErrUnavailable, exported: func(*testing.T, *copied) func(int64, *pb.ExportCheckpointResponse) error {
			return func(_ int64, m *pb.ExportCheckpointResponse) error { return unavailable(m) }
		}},
		"but not when the source breaks the contract": {calls: 1, want: podapi.ErrProtocol, exported: func(*testing.T, *copied) func(int64, *pb.ExportCheckpointResponse) error {
			return func(int64, *pb.ExportCheckpointResponse) error {
				return grpcstatus.Error(codes.NotFound, "it is not there")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := toBeCopied(t)
			exported := test.exported(t, &c)
			m := &middleman{exported: func(_ context.Context, call int64, r *pb.ExportCheckpointResponse) error { return exported(call, r) }}
			to := dial(t, podapi.DialOptions{Dial: unixDialer(c.to)})
			got, err := m.between(t, c.from).CopyCheckpoint(t.Context(), c.id, to, podapi.CopyOptions{Populate: true})
			if !errors.Is(err, test.want) || err == nil && got.ID != c.id {
				t.Errorf("%+v, %v", got, err)
			}
			if calls := m.exports.Load(); calls != test.calls {
				t.Errorf("the source was called %d times", calls)
			}
			list, err := to.Checkpoints(t.Context())
			if err != nil || (len(list) == 1) != (test.want == nil) {
				t.Errorf("there is %v, %v", list, err)
			}
		})
	}
}

// Only the agent that the files are for can say that it has them.
func TestSourceCannotSayThatTheWorkdirIsPopulated(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EEXIST, syscall.ENOTEMPTY} {
		c := toBeCopied(t)
		from := &middleman{exported: func(context.Context, int64, *pb.ExportCheckpointResponse) error {
			return wire.ToStatus(&fs.PathError{Op: "populate", Path: "workdir", Err: errno})
		}}
		to := dial(t, podapi.DialOptions{Dial: unixDialer(c.to)})
		if _, err := from.between(t, c.from).CopyCheckpoint(t.Context(), c.id, to, podapi.CopyOptions{Populate: true}); !errors.Is(err, podapi.ErrProtocol) || errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// Once all has arrived, the source may go, however long the other agent takes to make the files.
func TestCopyNeedsNoSourceOnceAllHasArrived(t *testing.T) {
	c := toBeCopied(t)
	from := &middleman{goes: make(chan struct{}), gone: make(chan struct{})}
	from.exported = func(context.Context, int64, *pb.ExportCheckpointResponse) error { return nil }
	to := &middleman{imported: func(ctx context.Context, m *pb.ImportCheckpointResponse) error {
		if m.GetEnd() == nil {
			return nil
		}
		close(from.goes)
		select {
		case <-from.gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	if _, err := from.between(t, c.from).CopyCheckpoint(ctx, c.id, to.between(t, c.to), podapi.CopyOptions{Populate: true}); err != nil {
		t.Error(err)
	}
}

// A source that has sent more than it was asked for could else go without an error, and the copy would wait for ever.
func TestCopyTakesNothingThatNobodyAskedFor(t *testing.T) {
	for name, surplus := range map[string]*pb.ExportCheckpointResponse{
		"a second manifest": {Kind: &pb.ExportCheckpointResponse_Manifest{Manifest: &pb.CheckpointManifest{Last: true}}},
		"further objects": {Kind: &pb.ExportCheckpointResponse_Parts{Parts: &pb.CheckpointParts{Parts: []*pb.CheckpointPart{
			{Object: make([]byte, len(checkpoint.Hash{}))}, {Object: make([]byte, len(checkpoint.Hash{}))},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := toBeCopied(t)
			from := &middleman{exported: func(_ context.Context, _ int64, m *pb.ExportCheckpointResponse) error {
				if m.GetParts() != nil {
					m.Kind = surplus.Kind
				}
				return nil
			}}
			silent := &middleman{imported: func(ctx context.Context, m *pb.ImportCheckpointResponse) error {
				if m.GetWant() != nil {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}}
			ctx, cancel := context.WithTimeout(t.Context(), hung)
			defer cancel()
			_, err := from.between(t, c.from).CopyCheckpoint(ctx, c.id, silent.between(t, c.to), podapi.CopyOptions{})
			if !errors.Is(err, podapi.ErrProtocol) {
				t.Error(err)
			}
		})
	}
}

// What has changed in the store is noticed by whoever gets it, though the agent compares nothing that it sends.
func TestExportOfADamagedCheckpointFails(t *testing.T) {
	workdir, store, client := withCheckpoints(t, nil)
	put(t, workdir, map[string]string{"f": "the content"})
	c, err := client.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	export := func() error { return client.ExportCheckpoint(t.Context(), c.ID, io.Discard, checkpoint.FileOptions{}) }
	if err := export(); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(store, "packs", "*"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	damaged := strings.Replace(read(t, packs[0]), "the content", "The content", 1)
	if err := errors.Join(os.Remove(packs[0]), os.WriteFile(packs[0], []byte(damaged), 0o400)); err != nil {
		t.Fatal(err)
	}
	if err := export(); !errors.Is(err, checkpoint.ErrCorrupt) || !errors.Is(err, fsops.ErrChecksum) {
		t.Error(err)
	}
}
