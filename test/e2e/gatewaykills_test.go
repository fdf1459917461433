package e2e

// Replicas of a gateway that are killed while callers work through them.

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// How many sandboxes there are, and how often a replica is killed: at full size about once in
// five seconds for two minutes.
func killSize() (sandboxes, kills int) {
	if os.Getenv("PODAGENT_TEST_FULL") != "" {
		return 50, 24
	}
	return 2, 6
}

// No command runs twice, no byte is lost or doubled, and what is called done is done, while three
// replicas behind one address are killed one after the other.
func TestReplicasOfAGatewayAreKilledWhileCallersWork(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	r := startReplicas(t, c, 3)
	sandboxes, kills := killSize()
	var workers []*killWorker
	for i := range sandboxes {
		for _, w := range killWorkers {
			workers = append(workers, &killWorker{T: t, replicas: r, sandbox: fmt.Sprintf("job-%d", i), name: w.name, work: w.work})
		}
	}
	for i := range sandboxes {
		w := &killWorker{T: t, replicas: r, sandbox: fmt.Sprintf("job-%d", i)}
		w.must("POST", "/api/v1/sandboxes", fmt.Appendf(nil, `{"id":%q}`, w.sandbox), 200, 201)
	}
	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() { w.run() })
	}
	for range kills {
		r.awaitProgress(workers)
		r.killOne()
	}
	r.awaitProgress(workers)
	r.over.Store(true)
	running.Wait()
	for i := range sandboxes {
		w := &killWorker{T: t, replicas: r, sandbox: fmt.Sprintf("job-%d", i)}
		w.must("DELETE", "/api/v1/sandboxes/"+w.sandbox, nil, 204, 404)
	}
}

// replicas are programs behind one address.
type replicas struct {
	*testing.T
	url   string
	start func() *replica
	over  atomic.Bool // workers come to their end

	mu   sync.Mutex
	all  []*replica
	next int
}

type replica struct {
	cmd  *exec.Cmd
	addr string
}

func startReplicas(t *testing.T, c *launchertest.Cluster, n int) *replicas {
	t.Helper()
	program, keys := buildOrchestrator(t), gatewayKeys(t)
	env := append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image, "XDG_CONFIG_HOME="+t.TempDir())
	r := &replicas{T: t, start: func() *replica {
		cmd := exec.Command(program, "gateway", "--listen", "127.0.0.1:0", "--keys", keys)
		cmd.Env, cmd.Stderr = env, t.Output()
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Errorf("a replica does not start: %v", err)
		}
		return &replica{cmd, strings.TrimPrefix(strings.TrimSpace(line), "http://")}
	}}
	for range n {
		r.all = append(r.all, r.start())
	}
	t.Cleanup(func() {
		for _, one := range r.all {
			one.kill()
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go r.serve(l)
	r.url = "http://" + l.Addr().String()
	return r
}

func (r *replica) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// killOne kills a replica, and starts it again.
func (r *replicas) killOne() {
	r.mu.Lock()
	i := r.next % len(r.all)
	one := r.all[i]
	r.mu.Unlock()
	one.kill()
	another := r.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	if another != nil {
		r.all[i] = another
	}
	r.next++
}

// serve passes each connection to one of the replicas that live.
func (r *replicas) serve(l net.Listener) {
	for turn := 0; ; turn++ {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go r.pass(conn, turn)
	}
}

func (r *replicas) pass(conn net.Conn, turn int) {
	defer conn.Close()
	for i := range len(r.all) {
		r.mu.Lock()
		addr := r.all[(turn+i)%len(r.all)].addr
		r.mu.Unlock()
		to, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		defer to.Close()
		done := make(chan struct{}, 2)
		for _, pair := range [][2]net.Conn{{conn, to}, {to, conn}} {
			go func() { _, _ = io.Copy(pair[0], pair[1]); done <- struct{}{} }()
		}
		<-done
		return
	}
}

// awaitProgress waits until each worker has done something since the call.
func (r *replicas) awaitProgress(workers []*killWorker) {
	r.Helper()
	deadline := time.Now().Add(harness.Hung)
	for _, w := range workers {
		for before := w.done.Load(); w.done.Load() == before && !r.Failed(); {
			if time.Now().After(deadline) {
				r.Fatalf("%s of %s does not go on", w.name, w.sandbox)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if r.Failed() {
		r.FailNow()
	}
}

// killWorker works in a sandbox through the replicas.
type killWorker struct {
	*testing.T
	*replicas
	sandbox, name string
	work          func(*killWorker) error
	done          atomic.Int64 // how many steps
}

func (w *killWorker) Helper() { w.T.Helper() }

func (w *killWorker) run() {
	if err := w.work(w); err != nil {
		w.T.Errorf("%s in %s: %v", w.name, w.sandbox, err)
	}
}

// errAgain says that nothing is known of what became of a request.
var errAgain = errors.New("it is not known what became of it")

// send sends a request once. Of an answer that was cut off, or says that a replica ended, it
// returns errAgain.
func (w *killWorker) send(method, path string, body []byte, headers ...string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Hung)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+gatewayToken)
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errAgain, err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode == 502 || r.StatusCode == 503 || r.StatusCode == 504 {
		return r, text, fmt.Errorf("%w: %d %s: %w", errAgain, r.StatusCode, text, errors.Join(err))
	}
	return r, text, nil
}

// again sends a request until its answer comes.
func (w *killWorker) again(method, path string, body []byte, headers ...string) (*http.Response, []byte, error) {
	for deadline := time.Now().Add(harness.Hung); ; {
		r, text, err := w.send(method, path, body, headers...)
		if !errors.Is(err, errAgain) || time.Now().After(deadline) {
			return r, text, err
		}
	}
}

// must sends a request until its answer comes, which has one of these statuses.
func (w *killWorker) must(method, path string, body []byte, statuses ...int) []byte {
	w.Helper()
	r, text, err := w.again(method, path, body)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, status := range statuses {
		if r.StatusCode == status {
			return text
		}
	}
	w.T.Fatalf("%s %s: %d %s", method, path, r.StatusCode, text)
	return nil
}
