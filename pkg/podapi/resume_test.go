package podapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestOutputAcrossTwentyCutsIsWhole(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	const lines = 5_000_000 // 39 MB
	want := sha256.New()
	local := exec.Command("seq", fmt.Sprint(lines))
	local.Stdout = want
	if err := local.Run(); err != nil {
		t.Fatal(err)
	}
	c := w.client(t)
	w.cutOften(20, 800<<10)
	got := sha256.New()
	cmd := c.Shell(t.Context(), fmt.Sprintf("seq %d; echo over >&2; exit 7", lines))
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = got, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*podapi.ExitError](err); !ok || exit.Code != 7 || exit.Omitted != 0 {
		t.Fatalf("it ended with %v after %d cuts", err, w.made)
	}
	if w.made != 20 {
		t.Errorf("there were %d cuts", w.made)
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) || stderr.String() != "over\n" {
		t.Errorf("the output differs: %d bytes of stdout, stderr %q", cmd.Process.Status().Stdout, &stderr)
	}
}

func TestInputAcrossTwentyCutsIsWhole(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	want, got := sha256.New(), sha256.New()
	const size = 40 << 20
	c := w.client(t)
	w.cutOften(20, 1<<20)
	cmd := c.Shell(t.Context(), "tee /dev/stderr | sha256sum; exit 3")
	var sum strings.Builder
	cmd.Stdin = io.TeeReader(io.LimitReader(random(1), size), want)
	cmd.Stdout, cmd.Stderr = &sum, got
	err := cmd.Run()
	if exit, ok := errors.AsType[*podapi.ExitError](err); !ok || exit.Code != 3 {
		t.Fatalf("it ended with %v after %d cuts", err, w.made)
	}
	if w.made != 20 {
		t.Errorf("there were %d cuts", w.made)
	}
	if text := fmt.Sprintf("%x  -\n", want.Sum(nil)); sum.String() != text {
		t.Errorf("the process read %q, want %q", &sum, text)
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("what came back differs: %d bytes", cmd.Process.Status().Stderr)
	}
}

// random returns bytes without end.
func random(seed uint64) io.Reader {
	return rand.NewChaCha8([32]byte{byte(seed)})
}

func TestProcessWhoseAgentRestartedIsLost(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	why := errors.New("the cat pulled the plug")
	c := dialed(t, podapi.DialOptions{Dial: w.dial, Lost: func(context.Context) error { return why }})
	cmd := c.Shell(t.Context(), "echo output; exec sleep 300")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	w.restart(t)
	err = cmd.Wait()
	_, isExit := errors.AsType[*podapi.ExitError](err)
	if !errors.Is(err, podapi.ErrAgentLost) || !errors.Is(err, why) || isExit || err.Error() != "exec script: agent lost: the cat pulled the plug" {
		t.Errorf("Wait: %v", err)
	}
	if s := cmd.Process.Status(); s == nil || s.Reason != podapi.AgentLost || s.Success() || s.Stdout != 7 || s.Code != -1 {
		t.Errorf("the status is %+v", s)
	}
}

func TestProcessOfALocalAgentThatDiedIsLostAtOnce(t *testing.T) {
	w := newCable(t)
	w.kill(t)
	s, err := w.Open(t.Context(), w.id) // starts it
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other, err := w.Open(t.Context(), w.id) // finds it
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cmds := []*podapi.Cmd{s.Command(t.Context(), "sleep", "300"), other.Command(t.Context(), "sleep", "300")}
	for _, cmd := range cmds {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	killAgent(t, w.direct(t))
	for i, want := range []string{"exec sleep: agent lost: its process ended: signal: killed", "exec sleep: agent lost: its process has ended"} {
		if err := cmds[i].Wait(); !errors.Is(err, podapi.ErrAgentLost) || err.Error() != want {
			t.Errorf("Wait: %v, want %s", err, want)
		}
	}
	if _, err := s.Stat(t.Context(), "."); !errors.Is(err, podapi.ErrUnavailable) || errors.Is(err, podapi.ErrAgentLost) {
		t.Errorf("the next call: %v", err)
	}
}

func TestRunWithoutAConnectionIsGivenUpInTime(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	c := w.client(t)
	for _, timeout := range []time.Duration{100 * time.Millisecond, -1} {
		w.setAway(false)
		eventually(t, "a connection", func() bool { return c.Healthy(t.Context()) == nil })
		cmd := c.Command(t.Context(), "sleep", "300")
		cmd.ResumeTimeout = timeout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.setAway(true)
		w.cut()
		if err := cmd.Wait(); !errors.Is(err, podapi.ErrUnavailable) || cmd.Process.Status() != nil {
			t.Errorf("Wait: %v, status %v", err, cmd.Process.Status())
		}
		if err := w.direct(t).Signal(t.Context(), cmd.ID, syscall.SIGKILL); err != nil {
			t.Errorf("the process does not run on: %v", err)
		}
	}
}

func TestContextEndDuringACutKillsTheProcessOnceThereIsAConnection(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	c := w.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := c.Command(ctx, "sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.setAway(true)
	w.cut()
	cancel()
	w.setAway(false)
	if err := cmd.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if s := cmd.Process.Status(); s == nil || s.Signal != 9 {
		t.Errorf("it ended with %+v", s)
	}
}

func TestCallThatComesInLateDoesNotEndTheRun(t *testing.T) {
	w := newCable(t)
	c := w.client(t)
	cmd := c.Command(t.Context(), "cat")
	in, out := startPiped(t, cmd)
	echo := func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(line))
		if _, err := io.ReadFull(out, got); err != nil || string(got) != line {
			t.Fatalf("cat says %q, %v", got, err)
		}
	}
	w.setAway(true)
	w.cut()
	w.setDeaf(true) // as if it came in late
	w.setAway(false)
	eventually(t, "the next call to be sent", func() bool { return bytes.Contains(w.sunk(), []byte(cmd.ID)) })
	w.setDeaf(false)
	w.cut()
	echo("by the call after that\n")

	late, err := w.dialDirect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	late.SetDeadline(time.Now().Add(hung))
	if _, err := late.Write(w.sunk()); err != nil {
		t.Fatal(err)
	}
	var heard []byte
	for !bytes.Contains(heard, []byte("by the call after that\n")) { // which is read from the beginning
		p := make([]byte, 1024)
		n, err := late.Read(p)
		if err != nil {
			t.Fatalf("the late call: %v after %q", err, heard)
		}
		heard = append(heard, p[:n]...)
	}
	echo("after the late call\n")
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("Wait: %v", err)
	}
}

func TestContextEndWithoutAConnectionEndsTheRun(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	c := w.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := c.Command(ctx, "sleep", "300")
	if _, err := cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.setAway(true)
	w.cut()
	cancel()
	if err := cmd.Wait(); !errors.Is(err, context.Canceled) || cmd.Process.Status() != nil {
		t.Errorf("Wait: %v, %v", err, cmd.Process.Status())
	}
	if err := w.direct(t).Signal(t.Context(), cmd.ID, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestForgottenProcessIsAnErrorOfItsOwn(t *testing.T) {
	w := newCable(t)
	c := w.client(t)
	cmd := c.Command(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.setAway(true)
	w.cut()
	direct := w.direct(t)
	if err := direct.Signal(t.Context(), cmd.ID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process to be forgotten", func() bool { return direct.Forget(t.Context(), cmd.ID) == nil })
	w.setAway(false)
	if err := cmd.Wait(); !errors.Is(err, podapi.ErrExecExpired) || errors.Is(err, os.ErrNotExist) {
		t.Errorf("Wait: %v", err)
	}
	in.Close()
}

func TestSignalAcrossACutArrives(t *testing.T) {
	w := newCable(t)
	c := w.client(t)
	cmd := c.Shell(t.Context(), `trap "exit 3" USR1; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	w.setAway(true)
	w.cut()
	signalled := make(chan error, 1)
	go func() { signalled <- cmd.Process.Signal(syscall.SIGUSR1) }()
	w.setAway(false)
	if err := <-signalled; err != nil {
		t.Errorf("Signal: %v", err)
	}
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	if exit, ok := errors.AsType[*podapi.ExitError](cmd.Wait()); !ok || exit.Code != 3 {
		t.Errorf("it ended with %v", exit)
	}
}

// TestReaderThatStallsGoesOn has a writer take nothing for longer than the
// agent waits for a reader, while another reads all.
func TestReaderThatStallsGoesOn(t *testing.T) {
	t.Parallel()
	w := newCable(t)
	const size = 160 << 20 // more than a journal and the windows hold
	slow := &gate{open: make(chan struct{})}
	cmd := w.client(t).Shell(t.Context(), fmt.Sprintf("head -c %d /dev/zero; exit 4", size))
	cmd.Stdout = slow
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all counter
	other, err := w.direct(t).Attach(t.Context(), cmd.ID, podapi.AttachOptions{Stdout: &all})
	if err == nil {
		err = other.Wait()
	}
	if exit, ok := errors.AsType[*podapi.ExitError](err); !ok || exit.Code != 4 || int64(all) != size {
		t.Errorf("the other reader got %d bytes: %v", all, err)
	}
	close(slow.open)
	err = cmd.Wait()
	exit, ok := errors.AsType[*podapi.ExitError](err)
	if !ok || exit.Code != 4 || int64(slow.counter)+exit.Omitted != size || exit.Omitted == 0 {
		t.Errorf("the slow reader got %d bytes: %v, %+v", slow.counter, err, exit)
	}
}

func TestContextEndOfAStalledReaderKillsTheProcess(t *testing.T) {
	t.Parallel()
	w := newCable(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := w.client(t).Command(ctx, "yes")
	slow := &gate{open: make(chan struct{})}
	cmd.Stdout = slow
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	direct := w.direct(t)
	process := func() podapi.ProcessInfo {
		list, err := direct.Processes(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	// It is held up by nobody then.
	eventually(t, "the reader to be detached", func() bool { return process().Stdout > 256<<20 })
	cancel()
	eventually(t, "the end of the process", func() bool { return process().Status != nil })
	close(slow.open)
	if err := cmd.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// gate is a writer that takes nothing until it is open.
type gate struct {
	counter
	open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.counter.Write(p)
}
