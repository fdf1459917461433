package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about commands whose caller ends, hangs, or does not
// learn the result of its start.

// clientVariable makes this test program a client with the options in its value, so
// that a client can be killed.
const clientVariable = "PODAGENT_E2E_CLIENT"

// hostSecret is a variable of this program that no sandbox may see.
const hostSecret = "SECRET_OF_THE_HOST"

func TestMain(m *testing.M) {
	if text := os.Getenv(clientVariable); text != "" {
		if err := runClient(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Setenv(hostSecret, "hunter2") // before any test, because all run in parallel
	os.Exit(m.Run())
}

// clientOptions are what another program does in a sandbox.
type clientOptions struct {
	// For the local launcher.
	StateDir, Agent string
	// For the Kubernetes launcher, if Kubeconfig is set.
	Kubeconfig, IdentityFile string
	Connection               launcher.Connection

	Sandbox, ExecID, Script string
	// Say is the number of output bytes after which it prints a line.
	Say int
}

// runClient runs a script and prints a line in the middle of its output.
func runClient(text string) error {
	var o clientOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	var l launcher.Launcher = &launcher.Local{StateDir: o.StateDir, Agent: o.Agent}
	if o.Kubeconfig != "" {
		l = &launcher.Kubernetes{Kubeconfig: o.Kubeconfig, IdentityFile: o.IdentityFile, Connection: o.Connection}
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Hung)
	defer cancel()
	s, err := l.Open(ctx, o.Sandbox)
	if err != nil {
		return err
	}
	defer s.Close()
	cmd := s.Shell(ctx, o.Script)
	cmd.ID = o.ExecID
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, out, int64(o.Say)); err != nil {
		return err
	}
	fmt.Println("in the middle")
	if _, err := io.Copy(io.Discard, out); err != nil {
		return err
	}
	return cmd.Wait()
}

func TestClientKilledInTheMiddleLeavesAllOutputToTheNext(t *testing.T) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		key, err := c.Identity.MarshalPEM()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "identity.pem")
		if err := os.WriteFile(file, key, 0o600); err != nil {
			t.Fatal(err)
		}
		testKilledClient(t, c.Launcher(), c.Spec("a"), clientOptions{Kubeconfig: c.WriteKubeconfig(t), IdentityFile: file, Connection: c.Connection})
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		l := launchertest.Local(t)
		testKilledClient(t, l, launcher.Spec{ID: "a"}, clientOptions{StateDir: l.StateDir, Agent: l.Agent})
	})
}

func testKilledClient(t *testing.T, l launcher.Launcher, spec launcher.Spec, o clientOptions) {
	const size, half, mark = 30_000_000, 15_000_000, 10_000_000
	s := harness.Launch(t, l, spec)
	upload(t, s, "content", size, 3)
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	o.Sandbox, o.ExecID, o.Say = spec.ID, id.String(), mark
	o.Script = fmt.Sprintf("head -c %d content; until [ -e go ]; do sleep 0.05; done; tail -c +%d content; exit 9", half, half+1)
	killClient(t, o)
	if p := process(t, s, o.ExecID); p.Status != nil || p.Stdout < mark {
		t.Errorf("the command does not continue without its client: %+v", p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	out, writer := io.Pipe()
	next, err := s.Attach(ctx, o.ExecID, podapi.AttachOptions{Stdout: writer})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- next.Wait()
		writer.Close()
	}()
	harness.Put(t, s, "go", "")
	got, n := harness.SHA(t, out)
	if err := <-ended; next.Status() == nil || next.Status().Code != 9 || next.Status().Omitted != 0 {
		t.Errorf("the next client: %v, %+v", err, next.Status())
	}
	if want, _ := harness.SHA(t, harness.Pattern(size, 3)); n != size || got != want {
		t.Errorf("the next client got %d bytes of SHA-256 %s, want %d of %s", n, got, size, want)
	}
}

// killClient runs another program as a client, and kills it in the middle of its
// output.
func killClient(t *testing.T, o clientOptions) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	client := exec.CommandContext(ctx, self)
	client.Env = append(client.Environ(), clientVariable+"="+string(text))
	var stderr bytes.Buffer
	client.Stderr = &stderr
	stdout, err := client.StdoutPipe()
	if err == nil {
		err = client.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	if err := client.Process.Kill(); err != nil {
		t.Error(err)
	}
	err = client.Wait()
	if status, ok := client.ProcessState.Sys().(syscall.WaitStatus); line != "in the middle\n" || !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the client said %q and ended with %v: %s", line, err, &stderr)
	}
}

// stuckFor is longer than an agent waits for a reader.
const stuckFor = time.Minute

func TestReaderThatStopsForAMinuteHoldsUpNeitherTheProcessNorAnotherReader(t *testing.T) {
	test := func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		s := harness.Launch(t, l, spec)
		const size = 120_000_000 // more than a journal and the windows hold
		harness.Run(t, s, fmt.Sprintf("head -c %d /dev/urandom > content", size), nil)
		want, err := s.ReadFile(t.Context(), "content")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), stuckFor+harness.Hung)
		defer cancel()
		other, err := l.Open(ctx, spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		first := s.Shell(ctx, "cat content; exit 6")
		stuck := &stuckWriter{begun: make(chan struct{}), free: make(chan struct{}), got: make([]byte, 0, size)}
		first.Stdout = stuck
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-stuck.begun:
		case <-ctx.Done():
			t.Fatal("no output came")
		}
		since := time.Now()
		var got bytes.Buffer
		got.Grow(size)
		second, err := other.Attach(ctx, first.ID, podapi.AttachOptions{Stdout: &got})
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Wait(); second.Status() == nil || second.Status().Code != 6 || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("the second reader got %d bytes: %v, %+v", got.Len(), err, second.Status())
		}
		time.Sleep(time.Until(since.Add(stuckFor)))
		close(stuck.free)
		err = first.Wait()
		status := first.Process.Status()
		if status == nil || status.Code != 6 || status.Stdout != size || status.Omitted == 0 {
			t.Fatalf("the first reader: %v, %+v", err, status)
		}
		before := commonPrefix(stuck.got, want)
		if !bytes.Equal(stuck.got[before:], want[min(size, before+int(status.Omitted)):]) {
			t.Errorf("the first reader got %d of %d bytes, %d of them correct, and %d reported as omitted",
				len(stuck.got), size, before, status.Omitted)
		}
	}
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) { test(t, c.Launcher(), c.Spec("a")) })
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, launchertest.Local(t), launcher.Spec{ID: "a"})
	})
}

// stuckWriter keeps everything, but its first Write returns only after it is freed.
type stuckWriter struct {
	begun, free chan struct{}
	once        sync.Once
	got         []byte
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.once.Do(func() {
		close(w.begun)
		<-w.free
	})
	w.got = append(w.got, p...)
	return len(p), nil
}

// commonPrefix returns the number of bytes with which a and b begin alike.
func commonPrefix(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
