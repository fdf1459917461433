package podapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/podagent/podagent/pkg/podapi"
)

// The tests of this file are about commands that are started once, however often
// their start is tried.

func TestManyCommandsAcrossCutsRunOnce(t *testing.T) {
	leakCheck(t)
	w := newWire(t)
	c := w.client(t)
	if _, err := c.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.cutOften(20, 3000)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			cmd := c.Shell(t.Context(), fmt.Sprintf("echo %d >> ran; cat", i))
			cmd.Stdin = strings.NewReader(fmt.Sprint(i))
			out, err := cmd.Output()
			// A start that finds no connection fails, as every call does.
			if err != nil && !errors.Is(err, podapi.ErrUnavailable) || err == nil && string(out) != fmt.Sprint(i) {
				t.Errorf("command %d: %q, %v", i, out, err)
			}
		})
	}
	all.Wait()
	ran, err := w.direct(t).ReadFile(t.Context(), "ran")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(ran)) {
		if seen[line] {
			t.Errorf("command %q ran twice", line)
		}
		seen[line] = true
	}
	t.Logf("%d cuts, %d commands ran", w.made, len(seen))
}

func TestStartWhoseAnswerIsCutOffRunsOnce(t *testing.T) {
	w := newWire(t)
	c := w.client(t)
	if _, err := c.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.setMute(true)
	cmd := c.Shell(t.Context(), "echo once >> ran; cat; exit 5")
	var out strings.Builder
	cmd.Stdin, cmd.Stdout = strings.NewReader("input"), &out
	started := make(chan error, 1)
	go func() { started <- cmd.Start() }()
	w.awaitFile(t, "ran", "once\n")
	w.cut()
	w.setMute(false)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if exit, ok := errors.AsType[*podapi.ExitError](err); !ok || exit.Code != 5 || out.String() != "input" {
		t.Errorf("%v, output %q", err, &out)
	}
	w.awaitFile(t, "ran", "once\n")
}

// awaitFile waits until a file of the sandbox has this content.
func (w *wire) awaitFile(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(w.workdir(t), name)
	var got []byte
	eventually(t, name, func() bool {
		var err error
		got, err = os.ReadFile(path)
		return err == nil && len(got) >= len(want)
	})
	if string(got) != want {
		t.Errorf("%s has %q, want %q", name, got, want)
	}
}

func (w *wire) workdir(t *testing.T) string {
	t.Helper()
	list, err := w.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0].Workdir
}

func TestAgentRestartedWhileAStartIsRetriedIsLostAndRanOnce(t *testing.T) {
	leakCheck(t)
	w := newWire(t)
	c := w.client(t)
	if _, err := c.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.setMute(true)
	cmd := c.Shell(t.Context(), "echo once >> ran; sleep 300")
	started := make(chan error, 1)
	go func() { started <- cmd.Start() }()
	w.awaitFile(t, "ran", "once\n")
	w.setAway(true)
	w.cut()
	w.restart(t)
	w.setMute(false)
	w.setAway(false)
	if err := <-started; !errors.Is(err, podapi.ErrAgentLost) {
		t.Errorf("Start: %v", err)
	}
	w.awaitFile(t, "ran", "once\n")
	// The next start names the agent that there is.
	if err := c.Shell(t.Context(), "echo twice >> ran").Run(); err != nil {
		t.Error(err)
	}
	w.awaitFile(t, "ran", "once\ntwice\n")
}

func TestStartThatMayHaveArrivedIsNotMadeAtAnotherAgent(t *testing.T) {
	w := newWire(t)
	c := w.client(t)
	if _, err := c.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.setDeaf(true) // it is sent, and lost on the way
	cmd := c.Shell(t.Context(), "echo never >> ran")
	started := make(chan error, 1)
	go func() { started <- cmd.Start() }()
	eventually(t, "the start to be sent", func() bool { return len(w.sunk()) > 0 })
	w.setAway(true)
	w.cut()
	w.restart(t)
	w.setDeaf(false)
	w.setAway(false)
	if err := <-started; !errors.Is(err, podapi.ErrAgentLost) {
		t.Errorf("Start: %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.workdir(t), "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
}

func TestStartAfterTheAgentRestartedUnnoticedRuns(t *testing.T) {
	w := newWire(t)
	c := w.client(t)
	for i := range 3 {
		if out, err := c.Shell(t.Context(), "echo x >> ran; wc -l < ran").Output(); strings.TrimSpace(string(out)) != fmt.Sprint(i+1) || err != nil {
			t.Errorf("start %d: %q, %v", i, out, err)
		}
		w.restart(t)
	}
}

// A start that is still on its way when its caller has given it up must not begin after
// the caller was told that nothing runs.
func TestStartThatComesInAfterItsContextEndedDoesNotRun(t *testing.T) {
	leakCheck(t)
	w := newWire(t)
	c := w.client(t)
	if _, err := c.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.setAway(true)
	w.cut()
	w.setDeaf(true) // as if it came in late
	w.setAway(false)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := c.Shell(ctx, "echo late >> ran")
	started := make(chan error, 1)
	go func() { started <- cmd.Start() }()
	eventually(t, "the start to be sent", func() bool { return bytes.Contains(w.sunk(), []byte("echo late")) })
	w.setAway(true)
	w.cut()
	w.setDeaf(false)
	cancel()
	w.setAway(false)
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	w.deliverLate(t)
	list, err := w.direct(t).Processes(t.Context())
	if len(list) > 0 || err != nil {
		t.Errorf("there are %+v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(w.workdir(t), "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
}

// deliverLate has what did not arrive come in, by a connection of its own, and returns
// when the agent has answered it.
func (w *wire) deliverLate(t *testing.T) {
	t.Helper()
	conn, err := w.dialDirect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hung))
	if _, err := conn.Write(w.sunk()); err != nil {
		t.Fatal(err)
	}
	for answers := http2.NewFramer(io.Discard, conn); ; {
		frame, err := answers.ReadFrame()
		if err != nil {
			t.Fatalf("the agent has not answered what came in late: %v", err)
		}
		if end, ok := frame.(*http2.HeadersFrame); ok && end.StreamEnded() {
			return
		}
	}
}
