package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// childDir is the variable that makes this program a gateway over the sandboxes in its directory.
const childDir = "PODAGENT_TEST_GATEWAY_DIR"

// serveChild is a gateway in a process of its own, which can be killed. It prints its URL, and a line for
// each connection of a sandbox.
func serveChild(dir string) {
	g := gateway.New(gateway.Options{
		Launcher: &launcher.Local{StateDir: filepath.Join(dir, "state"), Agent: os.Getenv("PODAGENT_BIN")},
		Tenants:  &gateway.Keys{Path: filepath.Join(dir, "keys.yaml")}, Ledger: ledger.Files{Dir: filepath.Join(dir, "ledgers")},
		Observers: []gateway.Observer{printer{}},
	})
	server := newServer(g)
	fmt.Println(server.URL)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	g.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	if err := g.Shutdown(ctx); err != nil {
		panic(err)
	}
	server.Close()
}

// printer prints when connections are opened.
type printer struct{}

func (printer) Begin(context.Context, gateway.Act) error          { return nil }
func (printer) End(context.Context, gateway.Act, gateway.Outcome) {}
func (printer) EgressDecided(egress.Decision)                     {}
func (printer) EgressOpened()                                     { fmt.Println("opened") }
func (printer) EgressClosed(int64, int64)                         {}
func (printer) FarEnds(int)                                       {}

// child is a gateway in another process.
type child struct {
	url    string
	cmd    *exec.Cmd
	opened chan struct{} // has a value for each connection, as far as there is room
	ended  chan struct{}
}

// family is several gateways over the same sandboxes.
type family struct {
	*door
	all      []*child
	launcher *launcher.Local
}

func newFamily(t *testing.T, n int, rules string) *family {
	dir := t.TempDir()
	l := launchertest.Local(t)
	if err := errors.Join(os.Mkdir(l.StateDir, 0o700), os.Symlink(l.StateDir, filepath.Join(dir, "state"))); err != nil {
		t.Fatal(err)
	}
	f := &family{door: &door{T: t, keys: filepath.Join(dir, "keys.yaml")}, launcher: l}
	f.waysOut(rules, "none")
	for range n {
		f.start(dir)
	}
	f.url = f.all[0].url
	return f
}

func (f *family) start(dir string) {
	f.Helper()
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	c := &child{cmd: exec.Command(self), opened: make(chan struct{}, 100), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childDir+"="+dir, "PODAGENT_BIN="+f.launcher.Agent)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.end(syscall.SIGKILL) })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		f.Fatal("a gateway did not start")
	}
	c.url = lines.Text()
	go func() {
		defer close(c.ended)
		for lines.Scan() {
			select {
			case c.opened <- struct{}{}:
			default:
			}
		}
		_ = c.cmd.Wait()
	}()
	f.all = append(f.all, c)
}

// end ends a gateway by a signal, and waits for it.
func (c *child) end(signal syscall.Signal) {
	_ = c.cmd.Process.Signal(signal)
	<-c.ended
}

// carrier waits for a connection, and returns the gateway that carries it.
func (f *family) carrier() *child {
	f.Helper()
	var cases []reflect.SelectCase
	for _, c := range f.all {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c.opened)})
	}
	cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(time.After(hung))})
	chosen, _, _ := reflect.Select(cases)
	if chosen == len(f.all) {
		f.Fatal("no gateway carries the connection")
	}
	return f.all[chosen]
}

// slowSite serves size bytes, half of them once it is let go on after it has begun.
func slowSite(t *testing.T, size int) (port int, begun chan struct{}, goOn func()) {
	on, begun := make(chan struct{}), make(chan struct{})
	goOn = sync.OnceFunc(func() { close(on) })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			fmt.Fprint(w, "hello")
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(size))
		half := make([]byte, size/2)
		_, _ = w.Write(half)
		w.(http.Flusher).Flush()
		close(begun)
		<-on
		_, _ = w.Write(half)
	}))
	t.Cleanup(func() { goOn(); s.Close() })
	return s.Listener.Addr().(*net.TCPAddr).Port, begun, goOn
}

// command returns a command of the sandbox job-1, which needs no gateway to be run.
func (f *family) command(script string) (output func() (string, error)) {
	f.Helper()
	s, err := f.launcher.Open(f.Context(), gateway.LauncherID("acme", "job-1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := s.Command(f.Context(), "sh", "-c", script).CombinedOutput()
		done <- result{string(text), err}
	}()
	return func() (string, error) {
		select {
		case r := <-done:
			return r.text, r.err
		case <-time.After(hung):
			f.Fatalf("it hangs: %s", script)
			return "", nil
		}
	}
}

// A gateway that is killed cuts what it carries, which programs see as an error. Another one goes on.
func TestDownloadByAGatewayThatIsKilledIsCutAndAnotherGoesOn(t *testing.T) {
	const size = 8 << 20
	port, begun, goOn := slowSite(t, size)
	f := newFamily(t, 3, pinned("a.test", port))
	f.makes("a", `{"id":"job-1"}`)
	output := f.command(fmt.Sprintf("curl -sS -o large http://a.test:%d/large; echo exit $?; wc -c < large; true", port))
	killed := f.carrier()
	<-begun
	killed.end(syscall.SIGKILL)
	goOn()
	text, err := output()
	if whole := strings.Contains(text, fmt.Sprintf("\n%d\n", size)); err != nil || whole != strings.Contains(text, "exit 0") {
		t.Errorf("the download ends by %q, %v", text, err)
	}
	began := time.Now()
	for {
		text, err := f.command(fmt.Sprintf("curl -sS http://a.test:%d/", port))()
		if text == "hello" {
			break
		}
		if time.Since(began) > hung {
			t.Fatalf("nobody goes on: %q, %v", text, err)
		}
	}
	if by := f.carrier(); by == killed {
		t.Error("the one that is dead goes on")
	}
}

// While a gateway ends, no new connection of a sandbox fails, and what it carries goes on to its end.
func TestNoConnectionFailsWhileAGatewayEnds(t *testing.T) {
	const size = 8 << 20
	port, begun, goOn := slowSite(t, size)
	f := newFamily(t, 2, pinned("a.test", port))
	f.makes("a", `{"id":"job-1"}`)
	large := f.command(fmt.Sprintf("curl -sS -o large http://a.test:%d/large; echo exit $?; wc -c < large; true", port))
	first := f.carrier()
	<-begun
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	get := fmt.Sprintf("curl -sS http://a.test:%d/", port)
	for deadline := time.Now().Add(hung); ; {
		if text, err := f.command(get)(); text != "hello" {
			t.Fatalf("a connection fails: %q, %v", text, err)
		}
		if f.carrier() != first {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no other gateway takes over")
		}
	}
	goOn()
	if text, err := large(); err != nil || !strings.Contains(text, "exit 0") || !strings.Contains(text, fmt.Sprint(size)) {
		t.Errorf("the download ends by %q, %v", text, err)
	}
	select {
	case <-first.ended:
	case <-time.After(hung):
		t.Fatal("the gateway does not end")
	}
	if text, err := f.command(get)(); text != "hello" {
		t.Errorf("a connection fails: %q, %v", text, err)
	}
}
