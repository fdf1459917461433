package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// serveTest serves an agent on a unix socket until the test ends, and returns
// its workdir and its address.
func serveTest(t *testing.T, change func(*Config)) (workdir, socket string) {
	t.Helper()
	dir := t.TempDir()
	workdir, socket = filepath.Join(dir, "work"), filepath.Join(dir, "s")
	if err := os.Mkdir(workdir, 0o755); err != nil {
		t.Fatal(err)
	}
	config := Config{
		Listen: "unix:" + socket, Workdir: workdir, Env: os.Environ(),
		Version: "test", Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&config)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, config) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	network, addr, err := splitAddress(config.Listen)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial(network, addr)
		if err == nil {
			conn.Close()
			return workdir, socket
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// raw connects without the Go client, to say what it would not.
func raw(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func dial(t *testing.T, opts podapi.DialOptions) *podapi.Client {
	t.Helper()
	client, err := podapi.Dial(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func unixDialer(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

// writeStream sends messages of Write and returns how the call ended.
func writeStream(t *testing.T, conn *grpc.ClientConn, messages ...*pb.WriteRequest) error {
	t.Helper()
	stream, err := pb.NewFilesClient(conn).Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if stream.Send(m) != nil {
			break // the answer says why
		}
	}
	_, err = stream.CloseAndRecv()
	return podapi.FromStatus(err)
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

func TestWriteThatIsNotWholeLeavesTheOldContent(t *testing.T) {
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
		"with a message too large": {[]*pb.WriteRequest{writeHeader("file"), writeData(strings.Repeat("x", podapi.MaxMessage+1))}, podapi.ErrTooLarge},
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

func TestPushThatIsNotWholeIsAnError(t *testing.T) {
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
		"whole":                 {[]*pb.PushRequest{header, data, end(fsops.SumOf([]byte(empty)))}, nil},
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
		if _, err := stream.CloseAndRecv(); !errors.Is(podapi.FromStatus(err), test.want) {
			t.Errorf("a push %s: %v, want %v", what, err, test.want)
		}
	}
}

// execStreamError sends messages of Exec and returns how the call ended.
func execStreamError(t *testing.T, conn *grpc.ClientConn, messages ...*pb.ExecRequest) error {
	t.Helper()
	stream, err := pb.NewProcessesClient(conn).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if stream.Send(m) != nil {
			break
		}
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return podapi.FromStatus(err)
		}
		if r.GetExit() != nil {
			return nil
		}
	}
}

func newExecID() string { return uuid.Must(uuid.NewV7()).String() }

func start(change func(*pb.ExecStart)) *pb.ExecRequest {
	s := &pb.ExecStart{ExecId: newExecID(), Argv: [][]byte{[]byte("sleep"), []byte("60")}, Timeout: int64(time.Minute)}
	change(s)
	return &pb.ExecRequest{Kind: &pb.ExecRequest_Start{Start: s}}
}

func TestExecRefusesBadMessages(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	good := func() *pb.ExecRequest { return start(func(s *pb.ExecStart) { s.Stdin = true }) }
	stdin := func(offset int64, data string) *pb.ExecRequest {
		return &pb.ExecRequest{Kind: &pb.ExecRequest_Stdin{Stdin: &pb.StdinChunk{Offset: offset, Data: []byte(data)}}}
	}
	for what, test := range map[string]struct {
		messages []*pb.ExecRequest
		want     error
	}{
		"opens with stdin":        {[]*pb.ExecRequest{stdin(0, "x")}, syscall.EINVAL},
		"opens with nothing":      {[]*pb.ExecRequest{{}}, syscall.EINVAL},
		"starts twice":            {[]*pb.ExecRequest{good(), good()}, syscall.EINVAL},
		"has no exec id":          {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.ExecId = "" })}, syscall.EINVAL},
		"has an odd exec id":      {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.ExecId = "x" })}, syscall.EINVAL},
		"has no command":          {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Argv = nil })}, syscall.EINVAL},
		"has command and script":  {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Script = []byte("x") })}, syscall.EINVAL},
		"has NUL in an argument":  {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Argv[1] = []byte("a\x00") })}, syscall.EINVAL},
		"has an odd environment":  {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Env = [][]byte{[]byte("x")} })}, syscall.EINVAL},
		"has a negative timeout":  {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Timeout = -1 })}, syscall.EINVAL},
		"wants a terminal":        {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Terminal = &pb.TerminalSize{} })}, errors.ErrUnsupported},
		"met another boot":        {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.BootId = "x" })}, podapi.ErrAgentLost},
		"leaves a gap in stdin":   {[]*pb.ExecRequest{good(), stdin(5, "x")}, syscall.EINVAL},
		"goes back before 0":      {[]*pb.ExecRequest{good(), stdin(-5, "x")}, syscall.EINVAL},
		"is over the window":      {[]*pb.ExecRequest{good(), stdin(0, strings.Repeat("x", podapi.StdinWindow+1))}, syscall.EINVAL},
		"sends an unknown signal": {[]*pb.ExecRequest{good(), {Kind: &pb.ExecRequest_Signal{Signal: 99}}}, syscall.EINVAL},
		"resizes no terminal":     {[]*pb.ExecRequest{good(), {Kind: &pb.ExecRequest_Resize{Resize: &pb.TerminalSize{}}}}, syscall.EINVAL},
		"attaches to nothing":     {[]*pb.ExecRequest{{Kind: &pb.ExecRequest_Attach{Attach: &pb.ExecAttach{ExecId: newExecID()}}}}, fs.ErrNotExist},
		"is over the limit":       {[]*pb.ExecRequest{start(func(s *pb.ExecStart) { s.Argv[1] = make([]byte, podapi.MaxMessage) })}, podapi.ErrTooLarge},
	} {
		if err := execStreamError(t, conn, test.messages...); !errors.Is(err, test.want) {
			t.Errorf("a stream that %s: %v, want %v", what, err, test.want)
		}
	}
}

func TestExecRepeatedWithItsIDAttaches(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	script := start(func(s *pb.ExecStart) { s.Argv, s.Script = nil, []byte("echo $$; exit 3") })
	var outputs []string
	for range 2 {
		stream, err := pb.NewProcessesClient(conn).Exec(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(script); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		var code int32
		for {
			r, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			out.Write(r.GetStdout().GetData())
			if exit := r.GetExit(); exit != nil {
				code = exit.Code
				break
			}
		}
		outputs = append(outputs, fmt.Sprint(out.String(), code))
	}
	if outputs[0] != outputs[1] {
		t.Errorf("the command ran twice: %q", outputs)
	}
	script.GetStart().Script = []byte("echo another")
	if err := execStreamError(t, conn, script); !errors.Is(err, podapi.ErrConflict) {
		t.Errorf("another command under the id: %v", err)
	}
}

func TestFileCallsRefuseBadInput(t *testing.T) {
	_, socket := serveTest(t, nil)
	c := dial(t, podapi.DialOptions{Dialer: unixDialer(socket)})
	ctx := t.Context()
	read := func(opts fsops.ReadOptions) error {
		_, err := c.Read(ctx, "f", opts, &strings.Builder{})
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
	if _, err := c.WriteFile(ctx, "f", []byte("content"), fsops.WriteOptions{}); err != nil {
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
			"write":   second(c.WriteFile(ctx, name, nil, fsops.WriteOptions{})),
			"edit":    second(c.Edit(ctx, name, []fsops.Edit{{Old: []byte("a"), New: []byte("b")}}, fsops.EditOptions{})),
			"mkdir":   c.Mkdir(ctx, name, fsops.MkdirOptions{}),
			"remove":  c.Remove(ctx, name, fsops.RemoveOptions{}),
			"rename":  c.Rename(ctx, name, "x", fsops.RenameOptions{}),
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

func second[A any](_ A, err error) error { return err }

func TestConfigureSetsEnvironmentAndWorkdir(t *testing.T) {
	workdir, socket := serveTest(t, func(c *Config) { c.Env = append(c.Env, "A=agent", "B=agent") })
	c := dial(t, podapi.DialOptions{Dialer: unixDialer(socket)})
	if err := os.Mkdir(filepath.Join(workdir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(workdir, "sub")
	if err := c.Configure(t.Context(), podapi.Config{Env: []string{"B=configured", "C=configured"}, Workdir: sub}); err != nil {
		t.Fatal(err)
	}
	cmd := c.Shell(t.Context(), `printf %s "$A $B $C $PWD"`)
	cmd.Env = []string{"C=own"}
	if out, err := cmd.Output(); err != nil || string(out) != "agent configured own "+sub {
		t.Errorf("%q, %v", out, err)
	}
	if info, err := c.Info(t.Context()); err != nil || info.Workdir != sub || info.Version != "test" || info.BootID == "" {
		t.Errorf("%+v, %v", info, err)
	}
	for _, bad := range []podapi.Config{{Env: []string{"x"}}, {Workdir: "relative"}} {
		if err := c.Configure(t.Context(), bad); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestInfoKnowsIdleness(t *testing.T) {
	_, socket := serveTest(t, nil)
	c := dial(t, podapi.DialOptions{Dialer: unixDialer(socket)})
	cmd := c.Command(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if info, err := c.Info(t.Context()); err != nil || info.Idle != 0 {
		t.Errorf("idle for %v while a process runs, %v", info.Idle, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for { // the call's end is noted after its answer
		info, err := c.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Idle > 0 {
			break
		}
	}
}

func TestOnlyHoldersOfTheKeyMayCall(t *testing.T) {
	known, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	_, socket := serveTest(t, func(c *Config) {
		c.AuthorizedKeys = []podapi.AuthorizedKey{known.AuthorizedKey()}
		c.PodUID = "uid-1"
	})
	ctx := t.Context()
	for what, test := range map[string]struct {
		opts podapi.DialOptions
		ok   bool
	}{
		"with the key":                    {podapi.DialOptions{Identity: &known, PodUID: "uid-1"}, true},
		"with the key, any pod":           {podapi.DialOptions{Identity: &known}, true},
		"with the key, for another pod":   {podapi.DialOptions{Identity: &known, PodUID: "uid-2"}, false},
		"with another key":                {podapi.DialOptions{Identity: &stranger, PodUID: "uid-1"}, false},
		"without a key, and without TLS ": {podapi.DialOptions{}, false},
	} {
		test.opts.Dialer = unixDialer(socket)
		_, err := dial(t, test.opts).Info(ctx)
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	conn, err := tls.Dial("unix", socket, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil {
		conn.Close()
		t.Error("the agent speaks TLS 1.2")
	}
}

func TestServeRefusesToListenToAnybodyByMistake(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, listen := range []string{"tcp:127.0.0.1:0", "tcp:0.0.0.0:0", "udp:x", "unix:", ""} {
		if err := Serve(t.Context(), Config{Listen: listen, Workdir: "/", Log: log}); err == nil {
			t.Errorf("it serves on %q", listen)
		}
	}
}

func TestSocketIsItsOwnersAlone(t *testing.T) {
	_, socket := serveTest(t, nil)
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
}

func TestSecondAgentOnASocketIsRefusedAndAStaleOneReplaced(t *testing.T) {
	_, socket := serveTest(t, nil)
	log := slog.New(slog.DiscardHandler)
	if err := Serve(t.Context(), Config{Listen: "unix:" + socket, Workdir: "/", Log: log}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second agent: %v", err)
	}
	stale := filepath.Join(t.TempDir(), "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	serveTest(t, func(c *Config) { c.Listen = "unix:" + stale })
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), Config{Listen: "unix:" + file, Workdir: "/", Log: log}); err == nil {
		t.Error("a file was replaced by a socket")
	}
}

func TestHealthAnswersNothingElse(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "health")
	_, main := serveTest(t, func(c *Config) { c.Health = "unix:" + socket })
	if err := CheckHealth(t.Context(), "unix:"+socket); err != nil {
		t.Error(err)
	}
	if err := CheckHealth(t.Context(), "unix:"+main); err != nil {
		t.Errorf("health on the agent's own socket: %v", err)
	}
	c := dial(t, podapi.DialOptions{Dialer: unixDialer(socket)})
	if _, err := c.Info(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Info on the health socket: %v", err)
	}
	if err := CheckHealth(t.Context(), "unix:"+socket+"x"); !errors.Is(err, podapi.ErrUnavailable) {
		t.Errorf("health of nobody: %v", err)
	}
}

func TestShutdownEndsProcessesAndWatches(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	socket := filepath.Join(dir, "s")
	go func() {
		ended <- Serve(ctx, Config{Listen: "unix:" + socket, Workdir: dir, Log: slog.New(slog.DiscardHandler)})
	}()
	c := dial(t, podapi.DialOptions{Dialer: unixDialer(socket)})
	for c.Healthy(t.Context()) != nil {
		time.Sleep(time.Millisecond)
	}
	cmd := c.Command(t.Context(), "/bin/sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watched := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		var last error
		for e, err := range c.Watch(t.Context(), ".", fsops.WatchOptions{}) {
			if last = err; err == nil && e.Op == fsops.WatchReady {
				close(ready)
			}
		}
		watched <- last
	}()
	<-ready
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := <-watched; !errors.Is(err, podapi.ErrUnavailable) {
		t.Errorf("the watch ended with %v", err)
	}
	var exit *podapi.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Reason != podapi.Signalled {
		t.Errorf("the process ended with %v", err)
	}
	if err := syscall.Kill(cmd.PID(), 0); err == nil {
		t.Error("the process survived the agent")
	}
}

func TestPanicOfAHandlerIsAnErrorOfItsCall(t *testing.T) {
	a := newAgent(Config{Log: slog.New(slog.DiscardHandler), Workdir: "/"})
	_, err := a.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x"}, func(context.Context, any) (any, error) {
		panic("at the disco")
	})
	if err == nil || !strings.Contains(err.Error(), "at the disco") {
		t.Errorf("got %v", err)
	}
}

func TestMergeEnvTakesTheLastValue(t *testing.T) {
	got := mergeEnv([]string{"A=1", "B=1"}, []string{"B=2"}, []string{"C=3", "C=4"})
	if want := []string{"A=1", "B=2", "C=4"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
