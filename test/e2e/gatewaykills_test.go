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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// killSize says how many sandboxes there are, and how many replicas are killed: few, or at full size
// one every killPause for two minutes.
func killSize(few int) (sandboxes, kills int) {
	if os.Getenv("PODAGENT_TEST_FULL") != "" {
		return 50, 24
	}
	return 2, few
}

// killPause is the time between kills at full size.
const killPause = 5 * time.Second

// No command runs twice, no byte is lost or doubled, what is called done is done, and each attempt is in
// an audit log once, while three replicas behind one address are killed one after the other.
func TestReplicasOfAGatewayAreKilledWhileCallersWork(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	p := startPrograms(t, c, 3)
	r := newReplicas(t, p)
	sandboxes, kills := killSize(6)
	r.work(sandboxes, func(progress func()) { r.killSome(kills, progress) })
	p.end()
	p.checkAudit(r)
}

// replicas are gateways behind one address.
type replicas struct {
	*testing.T
	fleet
	url   string
	over  atomic.Bool // workers come to their end
	trail trail

	commands atomic.Int64 // that ended, of those by podapi

	mu   sync.Mutex
	cuts []string // what is known of requests whose callers do not know what became of them
}

// cut notes that a request was cut off.
func (r *replicas) cut(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cuts = append(r.cuts, err.Error())
}

// takeCuts returns what was cut off since the last time.
func (r *replicas) takeCuts() (cuts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cuts, r.cuts = r.cuts, nil
	return cuts
}

// A fleet is gateways that are somewhere.
type fleet interface {
	// addresses are those of the gateways that serve.
	addresses() []string
	// kill kills one of them, which another one replaces.
	kill()
}

// newReplicas serves at an address until the test ends.
func newReplicas(t *testing.T, all fleet) *replicas {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &replicas{T: t, fleet: all, url: "http://" + l.Addr().String()}
	go r.serve(l)
	return r
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

// dialTime is how long a replica may take to be reached, before the next one is tried.
const dialTime = 2 * time.Second

func (r *replicas) pass(conn net.Conn, turn int) {
	defer conn.Close()
	all := r.addresses()
	for i := range all {
		to, err := net.DialTimeout("tcp", all[(turn+i)%len(all)], dialTime)
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

// work makes sandboxes, and lets all workers work in each of them while disturb runs, and until
// all have done something after it. disturb gets a call that waits until each has.
func (r *replicas) work(sandboxes int, disturb func(progress func())) {
	r.Helper()
	var workers []*killWorker
	for i := range sandboxes {
		for _, w := range killWorkers {
			workers = append(workers, &killWorker{T: r.T, replicas: r, sandbox: fmt.Sprintf("job-%d", i), name: w.name, work: w.work})
		}
	}
	r.each(sandboxes, func(w *killWorker) error {
		return w.must("POST", "/api/v1/sandboxes", fmt.Appendf(nil, `{"id":%q}`, w.sandbox), 200, 201)
	})
	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() { w.run() })
	}
	end := sync.OnceFunc(func() {
		r.over.Store(true)
		running.Wait()
	})
	defer end() // also when the test has failed
	progress := func() { r.awaitProgress(workers) }
	disturb(progress)
	progress()
	end()
	r.each(sandboxes, func(w *killWorker) error { return w.must("DELETE", "/api/v1/sandboxes/"+w.sandbox, nil, 204, 404) })
}

// killSome kills replicas one after the other, each when all workers have gone on since the last
// kill. At full size it does not wait for them.
func (r *replicas) killSome(kills int, progress func()) {
	r.Helper()
	for range kills {
		if os.Getenv("PODAGENT_TEST_FULL") != "" {
			time.Sleep(killPause)
		} else {
			progress()
		}
		r.kill()
	}
}

// each does something for each sandbox, for some at once.
func (r *replicas) each(sandboxes int, do func(*killWorker) error) {
	r.Helper()
	var all sync.WaitGroup
	room, errs := make(chan struct{}, 10), make([]error, sandboxes)
	for i := range sandboxes {
		room <- struct{}{}
		all.Go(func() {
			errs[i] = do(&killWorker{T: r.T, replicas: r, sandbox: fmt.Sprintf("job-%d", i)})
			<-room
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		r.Fatal(err)
	}
}

// gatewayPrograms are gateways on this machine.
type gatewayPrograms struct {
	path  string // of the program
	start func() *gatewayProgram
	audit auditLogs

	mu   sync.Mutex
	all  []*gatewayProgram
	next int
}

type gatewayProgram struct {
	cmd  *exec.Cmd
	addr string
}

func startPrograms(t *testing.T, c *launchertest.Cluster, n int, flags ...string) *gatewayPrograms {
	t.Helper()
	path, keys := harness.ProgramFile(t, "cmd/orchestrator"), gatewayKeys(t)
	env := append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image, "XDG_CONFIG_HOME="+t.TempDir())
	p := &gatewayPrograms{path: path, audit: newAuditLogs(t)}
	p.start = func() *gatewayProgram {
		p.audit.started++
		cmd := exec.Command(path, append([]string{"gateway", "--listen", "127.0.0.1:0", "--keys", keys, "--audit", p.audit.dir, "--audit-key-file", p.audit.key}, flags...)...)
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
		return &gatewayProgram{cmd, strings.TrimPrefix(strings.TrimSpace(line), "http://")}
	}
	for range n {
		p.all = append(p.all, p.start())
	}
	t.Cleanup(func() {
		for _, one := range p.all {
			one.kill()
		}
	})
	return p
}

func (p *gatewayProgram) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *gatewayPrograms) addresses() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.all {
		all = append(all, one.addr)
	}
	return all
}

func (p *gatewayPrograms) kill() {
	i := p.next % len(p.all)
	p.next++
	p.all[i].kill()
	p.audit.killed[p.all[i].cmd.Process.Pid] = true
	if another := p.start(); another != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all[i] = another
	}
}

// awaitProgress waits until each worker has done something since the call.
func (r *replicas) awaitProgress(workers []*killWorker) {
	r.Helper()
	deadline := time.Now().Add(harness.Hung)
	before := make([]int64, len(workers))
	for i, w := range workers {
		before[i] = w.done.Load()
	}
	for i, w := range workers {
		for w.done.Load() == before[i] && !r.Failed() {
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
		req.Close = req.Close || strings.HasPrefix(name, "If-")
	}
	// A server may close an idle connection just when a request comes. Clients then repeat what can be
	// repeated (RFC 9110, 9.2.2), and send what cannot by a connection of its own.
	if _, has := req.Header["Idempotency-Key"]; !has && !req.Close {
		req.Header["Idempotency-Key"] = nil // which is not sent
	}
	r, err := (&http.Client{Transport: &w.trail}).Do(req)
	if err != nil {
		w.cut(err)
		return nil, nil, fmt.Errorf("%w: %w", errAgain, err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode == 502 || r.StatusCode == 503 || r.StatusCode == 504 {
		again := fmt.Errorf("%w: %s %s: %d %s: %w", errAgain, method, path, r.StatusCode, text, errors.Join(err))
		if err != nil || bytes.Contains(text, []byte("this gateway ends")) {
			w.cut(again)
		}
		return r, text, again
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
func (w *killWorker) must(method, path string, body []byte, statuses ...int) error {
	r, text, err := w.again(method, path, body)
	if err == nil && !slices.Contains(statuses, r.StatusCode) {
		err = fmt.Errorf("%s %s: %d %s", method, path, r.StatusCode, text)
	}
	return err
}
