package podapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// begun starts a command, of whose output it returns the rest after the first
// line, which says that it runs.
func begun(t *testing.T, cmd *podapi.Cmd) io.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "begun\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	return out
}

func TestDetachLeavesTheProcessRunningForAnotherClient(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	cmd := w.client(t).Shell(t.Context(), "echo begun; cat; exit 3")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := begun(t, cmd)
	if _, err := in.Write([]byte("first\n")); err != nil {
		t.Fatal(err)
	}
	if line := make([]byte, 6); second(io.ReadFull(out, line)) != nil || string(line) != "first\n" {
		t.Errorf("it said %q", line)
	}
	go io.Copy(io.Discard, out)
	if err := cmd.Process.Detach(); err != nil {
		t.Errorf("Detach: %v", err)
	}
	if err := cmd.Wait(); err != podapi.ErrDetached || cmd.Process.Status() != nil {
		t.Errorf("Wait: %v, %v", err, cmd.Process.Status())
	}
	if err := cmd.Process.Detach(); err != nil {
		t.Errorf("Detach once more: %v", err)
	}

	again, all, err := attachedOutput(t, w.direct(t), cmd.ID, podapi.AttachOptions{Stdin: strings.NewReader("second\n")})
	if exit, ok := errors.AsType[*podapi.ExitError](err); !ok || exit.Code != 3 || all != "begun\nfirst\nsecond\n" {
		t.Errorf("%v, output %q", err, all)
	}
	if again.PID() != cmd.Process.PID() || again.ID() != cmd.ID {
		t.Errorf("%s with pid %d is not %s with %d", again.ID(), again.PID(), cmd.ID, cmd.Process.PID())
	}
	if err := again.Detach(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Detach after the end: %v", err)
	}
}

// attachedOutput attaches to a process, and returns what it prints and how the run ends.
func attachedOutput(t *testing.T, c *podapi.Client, id string, opts podapi.AttachOptions) (*podapi.Process, string, error) {
	t.Helper()
	var out strings.Builder
	opts.Stdout = &out
	p, err := c.Attach(t.Context(), id, opts)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Wait()
	return p, out.String(), err
}

func second[A any](_ A, err error) error { return err }

func TestDetachDuringACutLeavesTheProcessRunning(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	cmd := w.client(t).Shell(t.Context(), "echo begun; exec sleep 300")
	go io.Copy(io.Discard, begun(t, cmd))
	w.setAway(true)
	w.cut()
	if err := cmd.Process.Detach(); err != nil {
		t.Errorf("Detach: %v", err)
	}
	if err := cmd.Wait(); err != podapi.ErrDetached {
		t.Errorf("Wait: %v", err)
	}
	if err := w.direct(t).Signal(t.Context(), cmd.ID, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestDetachFromAnOutputThatNobodyReads(t *testing.T) {
	leakCheck(t)
	s := launchertest.Sandbox(t)
	cmd := s.Command(t.Context(), "yes")
	if _, err := cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "more output than the client holds", func() bool {
		list, err := s.Processes(t.Context())
		return err == nil && list[0].Stdout > 1<<20
	})
	if err := cmd.Process.Detach(); err != nil {
		t.Errorf("Detach: %v", err)
	}
	if err := cmd.Wait(); err != podapi.ErrDetached {
		t.Errorf("Wait: %v", err)
	}
	if err := s.Signal(t.Context(), cmd.ID, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestAttachFromAnOffsetGetsTheRest(t *testing.T) {
	s := launchertest.Sandbox(t)
	cmd := s.Shell(t.Context(), "printf 0123456789; printf abcdef >&2; exit 7")
	if err := cmd.Run(); err == nil {
		t.Fatal("it succeeded")
	}
	var stderr strings.Builder
	_, out, err := attachedOutput(t, s.Client, cmd.ID, podapi.AttachOptions{Stderr: &stderr, StdoutOffset: 4, StderrOffset: 6})
	if exit, ok := errors.AsType[*podapi.ExitError](err); !ok || exit.Code != 7 || out != "456789" || stderr.Len() != 0 {
		t.Errorf("%v, %q, %q", err, out, &stderr)
	}
	if _, _, err := attachedOutput(t, s.Client, cmd.ID, podapi.AttachOptions{StdoutOffset: 11}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("after the end of the output: %v", err)
	}
}

func TestAttachToNothingIsNotExist(t *testing.T) {
	s := launchertest.Sandbox(t)
	for _, id := range []string{"0198c0de-0000-7000-8000-000000000000", "", "none", "\x80"} {
		_, err := s.Attach(t.Context(), id, podapi.AttachOptions{})
		pathErr, ok := errors.AsType[*fs.PathError](err)
		if !ok || pathErr.Op != "attach" || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", id, err)
		}
		if err := s.Signal(t.Context(), id, syscall.SIGTERM); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("signal to %q: %v", id, err)
		}
		if err := s.Forget(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("forget %q: %v", id, err)
		}
	}
}

func TestAttachWithoutFollowing(t *testing.T) {
	s := launchertest.Sandbox(t)
	cmd := s.Shell(t.Context(), "echo begun; exec cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := begun(t, cmd)
	look := func() (string, error) {
		_, out, err := attachedOutput(t, s.Client, cmd.ID, podapi.AttachOptions{NoFollow: true})
		return out, err
	}
	if got, err := look(); err != podapi.ErrDetached || got != "begun\n" {
		t.Errorf("while it runs: %q, %v", got, err)
	}
	in.Close()
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got, err := look(); err != nil || got != "begun\n" {
		t.Errorf("after its end: %q, %v", got, err)
	}
}

func TestAttachWithoutOutputWaitsAndHoldsNobodyUp(t *testing.T) {
	s := launchertest.Sandbox(t)
	cmd := s.Shell(t.Context(), "echo begun; head -c 100M /dev/zero; exit 9")
	out := begun(t, cmd)
	var none bytes.Buffer
	quiet, err := s.Attach(t.Context(), cmd.ID, podapi.AttachOptions{Stdout: &none, NoOutput: true})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, out); n != 100<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	for _, wait := range []func() error{cmd.Wait, quiet.Wait} {
		if exit, ok := errors.AsType[*podapi.ExitError](wait()); !ok || exit.Code != 9 {
			t.Errorf("it ended with %v", exit)
		}
	}
	if none.Len() > 0 || quiet.Status().Stdout != 100<<20+6 || quiet.Omitted() != 0 {
		t.Errorf("%d bytes came, %+v", none.Len(), quiet.Status())
	}
}

func TestAttachedContextsEndLeavesTheProcessRunning(t *testing.T) {
	leakCheck(t)
	s := launchertest.Sandbox(t)
	cmd := s.Shell(t.Context(), "echo begun; exec sleep 300")
	go io.Copy(io.Discard, begun(t, cmd))
	ctx, cancel := context.WithCancel(t.Context())
	other, err := s.Attach(ctx, cmd.ID, podapi.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := other.Wait(); !errors.Is(err, context.Canceled) || !errors.Is(err, podapi.ErrDetached) {
		t.Errorf("Wait: %v", err)
	}
	// Nor does an error of its writer end it.
	full := errors.New("the caller's disk is full")
	if other, err = s.Attach(t.Context(), cmd.ID, podapi.AttachOptions{Stdout: failing{full}}); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); !errors.Is(err, full) {
		t.Errorf("Wait: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Errorf("the process does not run on: %v", err)
	}
	if exit, ok := errors.AsType[*podapi.ExitError](cmd.Wait()); !ok || exit.Signal != 9 {
		t.Errorf("it ended with %v", exit)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestReadersAcrossCutsGetAllEachAtItsOwnPace(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	const lines = 2_000_000
	cmd := w.client(t).Shell(t.Context(), fmt.Sprintf("seq %d; exit 2", lines))
	want := int64(len("1\n"))*9 + 3*90 + 4*900 + 5*9000 + 6*90_000 + 7*900_000 + 8*(lines-999_999)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.cutOften(10, 1<<20)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			var n counter
			err := podapi.ErrUnavailable
			for c := w.client(t); errors.Is(err, podapi.ErrUnavailable); { // while the connection breaks as it is made
				var reader *podapi.Process
				if reader, err = c.Attach(t.Context(), cmd.ID, podapi.AttachOptions{Stdout: &n}); err == nil {
					err = reader.Wait()
				}
			}
			if exit, ok := errors.AsType[*podapi.ExitError](err); !ok || exit.Code != 2 || int64(n) != want {
				t.Errorf("a reader got %d bytes of %d: %v", n, want, err)
			}
		})
	}
	all.Wait()
	if exit, ok := errors.AsType[*podapi.ExitError](cmd.Wait()); !ok || exit.Code != 2 {
		t.Errorf("it ended with %v", exit)
	}
}

func TestDeferredClientResumes(t *testing.T) {
	w := newCable(t)
	client := w.client(t)
	c := podapi.Deferred(func(context.Context) (*podapi.Client, error) { return client, nil }, client.Close)
	w.cutOften(5, 1<<20)
	out, err := c.Shell(t.Context(), "seq 1000000; exit 1").Output()
	if exit, ok := errors.AsType[*podapi.ExitError](err); !ok || exit.Code != 1 || len(out) != 6_888_896 {
		t.Errorf("%v, %d bytes", err, len(out))
	}
}
