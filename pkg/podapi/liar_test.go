package podapi_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// A liar is an agent that answers calls as a test wants. Its messages are bytes, so that
// it can send what no message is. The metadata of a call name the answer.
type liar struct {
	socket string
	// answers returns the answer of this name. Calls of other methods than the name has
	// get an honest answer.
	answers func(name string) answer
}

// An answer sends what it likes, until send fails because the client has left.
type answer func(ctx context.Context, send func([]byte) error) error

// lieKey is the metadata that name an answer, and the method that it is for.
const lieKey = "lie"

func newLiar(t *testing.T, answers func(name string) answer) *liar {
	t.Helper()
	dir, err := os.MkdirTemp("", "liar") // the kernel takes paths of 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &liar{socket: filepath.Join(dir, "s"), answers: answers}
	listener, err := net.Listen("unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(l.serve))
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return l
}

// serve answers any call.
func (l *liar) serve(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	method = method[strings.LastIndex(method, ".")+1:]
	go func() { // what the client sends is of no interest
		for stream.RecvMsg(new([]byte)) == nil {
		}
	}()
	var name string
	if md, ok := metadata.FromIncomingContext(stream.Context()); ok && len(md[lieKey]) == 1 {
		name = md[lieKey][0]
	}
	to := func(b []byte) error {
		if err := stream.Context().Err(); err != nil {
			return err
		}
		return stream.SendMsg(b)
	}
	switch {
	case methodOf(name) == method:
		return l.answers(name)(stream.Context(), to)
	case method == "Agent/Info":
		return to(encoded(honestInfo()))
	case method == "Files/Stat":
		return to(encoded(&pb.StatResponse{Attr: &pb.Attr{Path: []byte("f"), Size: 10, Mode: 0o644}}))
	}
	return to(nil)
}

// methodOf returns the method that a lie is for, such as "Files/Read" for
// "Files/Read lines: too many".
func methodOf(lie string) string {
	method, _, _ := strings.Cut(lie, ":")
	method, _, _ = strings.Cut(method, " ")
	return method
}

func honestInfo() *pb.InfoResponse {
	return &pb.InfoResponse{
		Version: "v1", ProtocolMajor: 1, ProtocolMinor: 1, BootId: "boot", Workdir: []byte("/w"),
		Os: "linux", Arch: "amd64", Executable: []byte("/bin/podagent"),
	}
}

// client returns a client of the agent at a socket.
func liarClient(t testing.TB, socket string) *podapi.Client {
	c, err := podapi.Dial(podapi.DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func asLie(ctx context.Context, name string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, lieKey, name)
}

// rawCodec passes bytes on.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

func encoded(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// once is an answer of these messages, after which the stream ends.
func once(messages ...proto.Message) answer {
	return func(ctx context.Context, send func([]byte) error) error {
		for _, m := range messages {
			if err := send(encoded(m)); err != nil {
				return err
			}
		}
		return nil
	}
}

// endless is an answer that begins with these messages, and repeats the last of them.
func endless(messages ...proto.Message) answer {
	return func(ctx context.Context, send func([]byte) error) error {
		last := len(messages) - 1
		if err := once(messages[:last]...)(ctx, send); err != nil {
			return err
		}
		b := encoded(messages[last])
		for {
			if err := send(b); err != nil {
				return err
			}
		}
	}
}

// parts is an answer of one message, with so many empty parts in the field that
// the numbers lead to.
func parts(n int, fields ...protowire.Number) answer {
	return func(ctx context.Context, send func([]byte) error) error {
		last := len(fields) - 1
		b := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, fields[last], protowire.BytesType), nil), n)
		for i := last - 1; i >= 0; i-- {
			b = protowire.AppendBytes(protowire.AppendTag(nil, fields[i], protowire.BytesType), b)
		}
		return send(b)
	}
}

// The parts of messages that lies are made of.

func data(n int) *pb.ReadResponse {
	return &pb.ReadResponse{Kind: &pb.ReadResponse_Data{Data: bytes.Repeat([]byte("x"), n)}}
}

func header(size int64) *pb.ReadResponse {
	return &pb.ReadResponse{Kind: &pb.ReadResponse_Header{Header: &pb.ReadHeader{Attr: &pb.Attr{Size: size, Mode: 0o644}}}}
}

func readEnd(content string, lines *pb.LineResult) *pb.ReadResponse {
	sum := fsops.SumOf([]byte(content))
	return &pb.ReadResponse{Kind: &pb.ReadResponse_End{End: &pb.ReadEnd{Sum: &pb.Sum{Size: sum.Size, Crc32C: sum.CRC32C}, Lines: lines}}}
}

func listed(attrs ...*pb.Attr) *pb.ListResponse {
	return &pb.ListResponse{Kind: &pb.ListResponse_Batch{Batch: &pb.AttrBatch{Attrs: attrs}}}
}

func globbed(paths ...string) *pb.GlobResponse {
	batch := &pb.GlobBatch{}
	for _, p := range paths {
		batch.Matches = append(batch.Matches, &pb.GlobMatch{Path: []byte(p)})
	}
	return &pb.GlobResponse{Kind: &pb.GlobResponse_Batch{Batch: batch}}
}

func found(results ...*pb.GrepResult) *pb.GrepResponse {
	return &pb.GrepResponse{Kind: &pb.GrepResponse_Batch{Batch: &pb.GrepBatch{Results: results}}}
}

func match() *pb.GrepResult {
	return &pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_MATCH, Path: []byte("f"), Line: 1, Text: []byte("x")}
}

func started() *pb.ExecResponse {
	return &pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{ExecId: liarExecID, BootId: "boot", Pid: 7}}}
}

// liarExecID is the exec id of all commands.
const liarExecID = "01890a5d-ac96-774b-bcce-b302099a8057"

func stdout(offset int64, omitted int64, data string) *pb.ExecResponse {
	return &pb.ExecResponse{Kind: &pb.ExecResponse_Stdout{Stdout: &pb.OutputChunk{Data: []byte(data), Offset: offset, Omitted: omitted}}}
}

func exited(e *pb.ExecExit) *pb.ExecResponse {
	return &pb.ExecResponse{Kind: &pb.ExecResponse_Exit{Exit: e}}
}

func running(p *pb.ProcessInfo) *pb.ListProcessesResponse {
	return &pb.ListProcessesResponse{Kind: &pb.ListProcessesResponse_Process{Process: p}}
}

func tarred(headers ...tar.Header) *pb.PullResponse {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			panic(err)
		}
	}
	if err := w.Flush(); err != nil {
		panic(err)
	}
	return &pb.PullResponse{Kind: &pb.PullResponse_Data{Data: b.Bytes()}}
}

func zeroed(n int) *pb.PullResponse {
	return &pb.PullResponse{Kind: &pb.PullResponse_Data{Data: make([]byte, n)}}
}

// liarCalls are the client's calls, by the RPC that they make. Of some there are several,
// with other options. They return how a call ended, the results of loops being dropped.
var liarCalls = map[string]func(ctx context.Context, c *podapi.Client, dir string) error{
	"Agent/Info": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.Info(ctx)
		return err
	},
	"Agent/Configure": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Configure(ctx, podapi.Config{})
	},
	"Agent/Stats": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.Stats(ctx)
		return err
	},
	"Files/Stat": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.Stat(ctx, "f")
		return err
	},
	"Files/List FS": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := fs.ReadDir(c.FS(ctx, "."), "d")
		return err
	},
	"Files/List": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.ReadDir(ctx, "d")
		return err
	},
	"Files/Read": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.Read(ctx, "f", io.Discard, fsops.ReadOptions{Length: 100})
		return err
	},
	"Files/Read all": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.ReadFile(ctx, "f")
		return err
	},
	"Files/Read open": func(ctx context.Context, c *podapi.Client, _ string) error {
		f, err := c.FS(ctx, "d").Open("f")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(io.Discard, f)
		return err
	},
	"Files/Read lines": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.ReadLines(ctx, "f", fsops.LineOptions{Max: 10})
		return err
	},
	"Files/Write": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.WriteFile(ctx, "f", []byte("content"), 0)
	},
	"Files/Edit": func(ctx context.Context, c *podapi.Client, _ string) error {
		r, err := c.Edit(ctx, "f", []fsops.Edit{{Old: []byte("a"), New: []byte("b")}}, fsops.EditOptions{})
		if err == nil && len(r.Occurrences) != 1 {
			panic("an edit without its occurrences")
		}
		return err
	},
	"Files/Mkdir": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Mkdir(ctx, "d", 0)
	},
	"Files/Remove": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Remove(ctx, "d")
	},
	"Files/Rename": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Rename(ctx, "a", "b")
	},
	"Files/Copy": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Copy(ctx, "a", "b", fsops.CopyOptions{})
	},
	"Files/Chmod": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Chmod(ctx, "a", 0)
	},
	"Files/Symlink": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Symlink(ctx, "a", "b")
	},
	"Files/Glob": func(ctx context.Context, c *podapi.Client, _ string) error {
		for _, err := range c.Glob(ctx, "*", fsops.GlobOptions{Limit: 5}) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"Files/Grep": func(ctx context.Context, c *podapi.Client, _ string) error {
		for r, err := range c.Grep(ctx, "x", fsops.GrepOptions{Limit: 5, Before: 1, Spans: true}) {
			if err != nil {
				return err
			}
			for _, s := range r.Spans {
				_ = r.Text[s.Start:s.End]
			}
		}
		return nil
	},
	"Files/Watch": func(ctx context.Context, c *podapi.Client, _ string) error {
		for _, err := range c.Watch(ctx, "d", fsops.WatchOptions{}) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"Files/Push": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.PushTar(ctx, bytes.NewReader(make([]byte, 1024)), "d", fsops.ExtractOptions{})
		return err
	},
	"Files/Pull": func(ctx context.Context, c *podapi.Client, dir string) error {
		opts := podapi.TransferOptions{ExtractOptions: fsops.ExtractOptions{MaxBytes: 8 << 20, MaxEntries: 1000}}
		_, err := c.Pull(ctx, "d", filepath.Join(dir, "target"), opts)
		return err
	},
	"Processes/Exec": func(ctx context.Context, c *podapi.Client, _ string) error {
		cmd := c.Command(ctx, "true")
		cmd.ID, cmd.ResumeTimeout, cmd.Stdin = liarExecID, -1, strings.NewReader("input")
		cmd.Stdout = io.Discard
		return cmd.Run()
	},
	"Processes/Exec attach": func(ctx context.Context, c *podapi.Client, _ string) error {
		p, err := c.Attach(ctx, liarExecID, podapi.AttachOptions{ResumeTimeout: -1, NoOutput: true})
		if err != nil {
			return err
		}
		return p.Wait()
	},
	"Processes/List": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.Processes(ctx)
		return err
	},
	"Processes/Signal": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Signal(ctx, liarExecID, 9)
	},
	"Processes/Forget": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.Forget(ctx, liarExecID)
	},
	"Git/Checkout": func(ctx context.Context, c *podapi.Client, dir string) error {
		_, err := c.Checkout(ctx, podapi.Checkout{Dir: dir, URL: "/repository"})
		return err
	},
	"Checkpoints/Create": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.Checkpoint(ctx, checkpoint.CreateOptions{})
		return err
	},
	"Checkpoints/List": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.Checkpoints(ctx)
		return err
	},
	"Checkpoints/Remove": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.RemoveCheckpoint(ctx, liarCheckpoint)
	},
	"Checkpoints/Diff": func(ctx context.Context, c *podapi.Client, _ string) (err error) {
		for _, err = range c.Diff(ctx, liarCheckpoint, "", checkpoint.DiffOptions{Text: true}) {
		}
		return err
	},
	"Checkpoints/Restore": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.Restore(ctx, liarCheckpoint, checkpoint.RestoreOptions{})
		return err
	},
	"Checkpoints/Export": func(ctx context.Context, c *podapi.Client, _ string) error {
		return c.ExportCheckpoint(ctx, liarCheckpoint, io.Discard, checkpoint.FileOptions{})
	},
	"Checkpoints/Import": func(ctx context.Context, c *podapi.Client, _ string) error {
		var file bytes.Buffer
		w, err := checkpoint.NewFileWriter(&file, liarCheckpoint, []byte(liarManifest), checkpoint.FileOptions{Unverified: true})
		if err = errors.Join(err, w.Close()); err != nil {
			return err
		}
		_, err = c.ImportCheckpoint(ctx, &file, podapi.CopyOptions{})
		return err
	},
	"Checkpoints/Export copy": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.CopyCheckpoint(ctx, liarCheckpoint, c, podapi.CopyOptions{})
		return err
	},
	"Checkpoints/Import copy": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.CopyCheckpoint(ctx, liarCheckpoint, c, podapi.CopyOptions{})
		return err
	},
	"Processes/KillStrays": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, err := c.KillStrays(ctx)
		return err
	},
	"Ports/List": func(ctx context.Context, c *podapi.Client, _ string) error {
		_, _, err := c.Ports(ctx)
		return err
	},
	"Ports/Dial":   func(ctx context.Context, c *podapi.Client, _ string) error { return drained(c.Dial(ctx, 80)) },
	"Egress/Carry": func(ctx context.Context, c *podapi.Client, _ string) error { return drained(c.Carry(ctx, 1)) },
	"Egress/Serve": func(ctx context.Context, c *podapi.Client, _ string) error {
		l, err := farend.Listen(ctx, c, farend.Options{})
		if err != nil {
			return err
		}
		return l.Close()
	},
}

// drained reads a connection to its end.
func drained(conn net.Conn, err error) error {
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.Copy(io.Discard, conn)
	return err
}

// callOf returns the call that a lie is for.
func callOf(lie string) func(ctx context.Context, c *podapi.Client, dir string) error {
	name, _, _ := strings.Cut(lie, ":")
	return liarCalls[name]
}

// A seeded liar answers with random messages of the type that the method has.
func randomAnswer(seed uint64, method string) answer {
	return func(ctx context.Context, send func([]byte) error) error {
		random := rand.New(rand.NewPCG(seed, 1))
		for range random.IntN(12) {
			b := encoded(randomMessage(random, responseOf(method)))
			if random.IntN(20) == 0 && len(b) > 0 {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			if err := send(b); err != nil {
				return err
			}
		}
		if random.IntN(3) == 0 {
			return fmt.Errorf("liar's error %d", seed)
		}
		return nil
	}
}

func responseOf(method string) protoreflect.MessageType {
	service, name, _ := strings.Cut(method, "/")
	d := pb.File_podapi_proto.Services().ByName(protoreflect.Name(service)).Methods().ByName(protoreflect.Name(name))
	return typeOf(d.Output())
}

func typeOf(d protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err)
	}
	return t
}

// randomMessage returns a message of which each field may be set, to what an agent sends
// or to what it does not.
func randomMessage(random *rand.Rand, t protoreflect.MessageType) proto.Message {
	m := t.New()
	fields := t.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case random.IntN(2) == 0:
		case f.IsList():
			list := m.Mutable(f).List()
			for range random.IntN(4) {
				list.Append(randomValue(random, f))
			}
		default:
			m.Set(f, randomValue(random, f))
		}
	}
	return m.Interface()
}

func randomValue(random *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	n := []int64{0, 0, 1, 1, 2, 7, 255, -1, 1 << 40, -1 << 63, 1<<63 - 1}[random.IntN(11)]
	text := []string{"", "", "f", "d/f", "boot", liarExecID, "../../etc", "\x1b[2J", strings.Repeat("x", 5000), "127.0.0.1:80"}[random.IntN(10)]
	switch f.Kind() {
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(randomMessage(random, typeOf(f.Message())).ProtoReflect())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n&1 == 1)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(random.IntN(9) - 1))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(text))
	}
	panic(f.Kind())
}

// peak returns the most memory that this process had, in bytes.
func peak(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// lieTimeout is by when a call has to have ended by itself. The longest, of a million messages, takes ten seconds alone, and a
// minute beside other tests.
const lieTimeout = 5 * time.Minute
