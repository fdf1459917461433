package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/podapi"
)

// client returns a client of a sandbox by the gateway.
func (d *door) client(token, sandbox string) *podapi.Client {
	d.Helper()
	return d.clientBy(token, sandbox, d.connect)
}

func (d *door) connect(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(d.url, "http://"))
}

func (d *door) clientBy(token, sandbox string, dial func(context.Context) (net.Conn, error)) *podapi.Client {
	d.Helper()
	client, err := podapi.Dial(podapi.DialOptions{Dial: dial, GRPC: taking("authorization", "Bearer "+token, "podagent-sandbox", sandbox)})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { client.Close() })
	return client
}

// taking has calls take metadata along.
func taking(pairs ...string) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return call(metadata.AppendToOutgoingContext(ctx, pairs...), method, in, out, conn, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(metadata.AppendToOutgoingContext(ctx, pairs...), desc, conn, method, opts...)
		}),
	}
}

// fill reads as much as there is room for.
func (d *door) fill(r io.Reader, room []byte) {
	d.Helper()
	if n, err := io.ReadFull(r, room); err != nil {
		d.Fatalf("%d bytes of %d: %v", n, len(room), err)
	}
}

// expect reads a text, and nothing after it.
func (d *door) expect(r io.Reader, text string) {
	d.Helper()
	room := make([]byte, len(text))
	if d.fill(r, room); string(room) != text {
		d.Fatalf("%q comes in place of %q", room, text)
	}
}

func observedBy(w *witness) func(*gateway.Options) {
	return func(o *gateway.Options) { o.Observers = []gateway.Observer{w} }
}

// collect returns what a loop gives.
func collect[T any](t *testing.T, all func(func(T, error) bool)) (got []T) {
	t.Helper()
	for one, err := range all {
		if err != nil {
			t.Error(err)
		}
		got = append(got, one)
	}
	return got
}

func TestFilesAreReadAndChangedByPodapi(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c, ctx := d.client("a", "job-1"), t.Context()
	content := bytes.Repeat([]byte("0123456789"), 1<<20)
	if err := c.WriteFile(ctx, "large", content, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReadFile(ctx, "large"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes come back: %v", len(got), err)
	}
	var pathErr *fs.PathError
	if _, err := c.ReadFile(ctx, "none"); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &pathErr) || pathErr.Path != "none" {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := c.Mkdir(ctx, "large", 0); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a directory that is there: %v", err)
	}
	if _, err := c.Write(ctx, "large", strings.NewReader("x"), fsops.WriteOptions{IfMatch: "other"}); !errors.Is(err, fsops.ErrChanged) {
		t.Errorf("a write that does not match: %v", err)
	}
	var editErr *fsops.EditError
	if _, err := c.Edit(ctx, "large", []fsops.Edit{{Old: []byte("0123"), New: []byte("x")}}, fsops.EditOptions{}); !errors.As(err, &editErr) || editErr.Count != 1<<20 {
		t.Errorf("an edit of what is there often: %v", err)
	}
	if found := collect(t, c.Glob(ctx, "l*", fsops.GlobOptions{})); len(found) != 1 || found[0].Path != "large" {
		t.Errorf("found %v", found)
	}
	if err := c.WriteFile(ctx, "small", []byte("one\ntwo\n"), 0); err != nil {
		t.Fatal(err)
	}
	if found := collect(t, c.Grep(ctx, "t.o", fsops.GrepOptions{Paths: []string{"small"}})); len(found) != 1 || found[0].Line != 2 {
		t.Errorf("found %v", found)
	}
	var archive bytes.Buffer
	if _, err := c.PullTar(ctx, ".", &archive, fsops.ArchiveOptions{}); err != nil {
		t.Error(err)
	}
	if stats, err := c.PushTar(ctx, &archive, "copy", fsops.ExtractOptions{}); err != nil || stats.Bytes != int64(len(content))+8 {
		t.Errorf("%+v: %v", stats, err)
	}
	for event, err := range c.Watch(ctx, ".", fsops.WatchOptions{Ready: func() { go c.WriteFile(ctx, "new", nil, 0) }}) {
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(event.Path) == "new" {
			break
		}
	}
}

func TestCommandsRunByPodapi(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c, ctx := d.client("a", "job-1"), t.Context()
	content := bytes.Repeat([]byte("0123456789"), 1<<20)
	cat := c.Command(ctx, "cat")
	cat.Stdin = bytes.NewReader(content)
	if got, err := cat.Output(); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes come back: %v", len(got), err)
	}
	var exit *podapi.ExitError
	if _, err := c.Shell(ctx, "echo bad >&2; exit 7").Output(); !errors.As(err, &exit) || exit.Code != 7 || string(exit.Stderr) != "bad\n" {
		t.Errorf("a command that fails: %v", err)
	}
	if err := c.Command(ctx, "none").Run(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a command that is not there: %v", err)
	}
	known, err := c.Processes(ctx)
	if err != nil || !slices.ContainsFunc(known, func(p podapi.ProcessInfo) bool { return p.ID == cat.Process.ID() }) {
		t.Errorf("the processes are %v: %v", known, err)
	}
	shell := c.Shell(ctx, "stty -echo; echo ready; read line; stty size; exit $line")
	shell.Terminal = &podapi.TerminalSize{Rows: 24, Columns: 80}
	in, _ := shell.StdinPipe()
	out, _ := shell.StdoutPipe()
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	d.upTo(out, "ready")
	if err := shell.Process.Resize(podapi.TerminalSize{Rows: 30, Columns: 100}); err != nil {
		t.Error(err)
	}
	fmt.Fprintln(in, "5")
	d.upTo(out, "30 100")
	if err := shell.Wait(); !errors.As(err, &exit) || exit.Code != 5 {
		t.Errorf("a terminal: %v", err)
	}
	sleep := c.Command(ctx, "sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(ctx, sleep.Process.ID(), syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := sleep.Wait(); !errors.As(err, &exit) || exit.Signal != int(syscall.SIGTERM) {
		t.Errorf("a command that gets a signal: %v", err)
	}
}

func TestPortsAreReachedByPodapi(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.client("a", "job-1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		}
	}()
	conn, err := c.Dial(t.Context(), l.Addr().(*net.TCPAddr).Port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	content := bytes.Repeat([]byte("0123456789"), 1<<18)
	go func() {
		_, _ = conn.Write(content)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes come back: %v", len(got), err)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	if _, err := c.Dial(t.Context(), closed.Listener.Addr().(*net.TCPAddr).Port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port at which nothing listens: %v", err)
	}
}

// What looks on wakes nobody; work does, also if its client first asks what agent it meets.
func TestPodapiWakesForWork(t *testing.T) {
	d, l := asleep(t, `{"id":"job-1","auto_pause":true,"idle_seconds":600}`, hung)
	close(l.held)
	c, ctx := d.client("a", "job-1"), t.Context()
	_, infoErr := c.Info(ctx)
	_, statsErr := c.Stats(ctx)
	_, listErr := c.Processes(ctx)
	_, _, portsErr := c.Ports(ctx)
	for name, err := range map[string]error{"info": infoErr, "stats": statsErr, "list": listErr, "ports": portsErr, "health": c.Healthy(ctx)} {
		if err == nil || !strings.Contains(err.Error(), "paused") {
			t.Errorf("%s of a sandbox that sleeps: %v", name, err)
		}
	}
	if n := l.resumes.Load(); n != 0 {
		t.Fatalf("%d resumptions for those who look on", n)
	}
	if out, err := c.Shell(ctx, "echo awake").Output(); err != nil || string(out) != "awake\n" {
		t.Errorf("%q: %v", out, err)
	}
	if n := l.resumes.Load(); n != 1 {
		t.Errorf("%d resumptions", n)
	}
}

func TestObserversAreToldOfCallsOfPodapi(t *testing.T) {
	w := &witness{}
	d := newDoor(t, observedBy(w))
	d.sandbox()
	c, ctx := d.client("a", "job-1"), t.Context()
	for i, s := range []struct {
		call func() error
		want string
	}{
		{func() error { _, err := c.Info(ctx); return err }, `podapi.v1.Agent/Info job-1 [] [] 200 `},
		{func() error { return c.Command(ctx, "sh", "-c", "exit 3").Run() }, `podapi.v1.Processes/Exec job-1 ["sh" "-c" "exit 3"] [] 200  exit 3`},
		{func() error { return c.Shell(ctx, "true").Run() }, `podapi.v1.Processes/Exec job-1 ["true"] [] 200  exit 0`},
		{func() error { return c.WriteFile(ctx, "a b", []byte("x"), 0) }, `podapi.v1.Files/Write job-1 [] ["a b"] 200 `},
		{func() error { _, err := c.ReadFile(ctx, "none"); return err }, `podapi.v1.Files/Read job-1 [] ["none"] 404 not_exist`},
		{func() error { return c.Rename(ctx, "a b", "c") }, `podapi.v1.Files/Rename job-1 [] ["a b" "c"] 200 `},
		{func() error { return c.Configure(ctx, podapi.Config{}) }, `podapi.v1.Agent/Configure job-1 [] [] 403 permission`},
	} {
		_ = s.call()
		if got := w.last(t, i+2); !strings.HasPrefix(got, "acme "+s.want) {
			t.Errorf("%s\nwant %s", got, s.want)
		}
	}
	w.mu.Lock()
	w.refuse = true
	w.mu.Unlock()
	if err := c.WriteFile(ctx, "d", nil, 0); !errors.Is(err, podapi.ErrUnavailable) {
		t.Errorf("a call that cannot be recorded: %v", err)
	}
	w.mu.Lock()
	w.refuse = false
	w.mu.Unlock()
	if _, err := c.Stat(ctx, "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}
