package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools/sessionstore"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// localHost returns the host on the local launcher.
func localHost(t *testing.T, program string) (*exampleHost, *launcher.Local, string) {
	t.Helper()
	l := launchertest.Local(t)
	state := t.TempDir()
	l.StateDir = filepath.Join(state, "podagent", "local") // where the host keeps it
	dir := filepath.Join(t.TempDir(), "sessions")
	h := newExampleHost(t, program, &sessionstore.Disk{Dir: dir}, "-backend", "local", "-sessions", dir)
	h.env = append(h.env, "XDG_STATE_HOME="+state, "PODAGENT_BIN="+l.Agent)
	return h, l, dir
}

// lockSessions prevents hosts from saving.
func lockSessions(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := lockedfile.Edit(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	return func() { file.Close() }
}

func TestExampleHostIsKilledAndTriedAgainLocally(t *testing.T) {
	t.Parallel()
	h, l, dir := localHost(t, harness.ProgramFile(t, "pkg/tools/examples/host"))
	h.isKilledInItsLaunch(t, l)

	// Kill it between the launch and the first save.
	unlock := lockSessions(t, dir)
	try := h.try(t)
	try.logs("msg=launched")
	s, err := l.Open(t.Context(), h.job)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	harness.Put(t, s, "witness", "it is the same workspace")
	try.kill()
	unlock()

	// Kill it in the middle of a long command.
	try = h.try(t)
	harness.Await(t, "the long command", func() bool {
		steps, err := s.ReadFile(t.Context(), "steps")
		return err == nil && strings.Contains(string(steps), "begun")
	})
	try.kill()

	// Kill it between the command's result and the save of that result, in two
	// hosts at once.
	const repeats = "msg=calling tool=Bash again=true"
	pair := [2]*hostTry{h.try(t), nil}
	pair[0].logs(repeats)
	pair[1] = h.try(t)
	pair[1].logs(repeats)
	unlock = lockSessions(t, dir)
	harness.Put(t, s, "go", "")
	for _, r := range pair {
		r.logs("msg=called")
		r.kill()
	}
	unlock()
	if harness.Get(t, s, "witness") != "it is the same workspace" {
		t.Error("the workspace is another one")
	}

	h.isDoneByOneOfTwo(t, dir)
	h.isWhole(t, editDone, "one one")
	if list, err := l.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("there are sandboxes left: %v, %v", list, err)
	}
	h.forgets(t)
}

// isKilledInItsLaunch kills a host while the agent of its sandbox does not come up.
// The agent does so afterwards.
func (h *exampleHost) isKilledInItsLaunch(t *testing.T, l *launcher.Local) {
	t.Helper()
	hold, slow := filepath.Join(t.TempDir(), "hold"), filepath.Join(t.TempDir(), "podagent")
	script := fmt.Sprintf("#!/bin/sh\nif [ -e %[1]s ]; then touch %[1]s.reached; while [ -e %[1]s ]; do sleep 0.05; done; fi\nexec %[2]s \"$@\"\n", hold, l.Agent)
	for name, content := range map[string]string{hold: "", slow: script} {
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(h.env, "PODAGENT_BIN="+slow)
	try := h.try(t)
	harness.Await(t, "the agent's start", func() bool {
		_, err := os.Stat(hold + ".reached")
		return err == nil
	})
	try.kill()
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
}

// isDoneByOneOfTwo starts two hosts with the same conversation, in which a call
// must be repeated. The host that falls behind must not make the call.
func (h *exampleHost) isDoneByOneOfTwo(t *testing.T, dir string) {
	t.Helper()
	unlock := lockSessions(t, dir)
	pair := [2]*hostTry{h.try(t), h.try(t)}
	for _, r := range pair {
		r.logs("msg=launched")
	}
	unlock()
	one, two := pair[0].exits(), pair[1].exits()
	if min(one, two) != 0 || max(one, two) != tryLater {
		t.Errorf("of two hosts with one job one exits with %d, the other with %d", one, two)
	}
	for _, r := range pair {
		if r.exits() == tryLater && strings.Contains(r.text(), "msg=calling") {
			t.Errorf("the host that fell behind made a call:\n%s", r.text())
		}
	}
}

// TestExampleHostTellsTheModelThatItsLocalSandboxWasLost removes the sandbox
// between two tries, and kills the host that launches the next sandbox.
func TestExampleHostTellsTheModelThatItsLocalSandboxWasLost(t *testing.T) {
	t.Parallel()
	h, l, dir := localHost(t, harness.ProgramFile(t, "pkg/tools/examples/host"))
	try := h.try(t)
	try.logs("msg=called tool=Bash") // the first command; the long one follows
	try.logs("msg=calling tool=Bash")
	harness.Await(t, "the long command", func() bool { return strings.Count(try.text(), "msg=calling tool=Bash") == 2 })
	try.kill()
	list, err := l.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := l.Terminate(t.Context(), h.job); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the next second, since sandboxes are told by that", func() bool {
		return time.Now().Unix() > list[0].CreatedAt.Unix()
	})

	unlock := lockSessions(t, dir)
	try = h.try(t)
	try.logs("msg=launched created=true")
	try.kill()
	unlock()
	try = h.try(t)
	try.succeeds()
	if !strings.Contains(try.text(), "msg=launched created=false") {
		t.Error("the sandbox was lost again")
	}
	h.wasToldOfTheLoss(t, 2)
}

// TestExampleHostIsKilledAtAnyMoment kills the host after growing times, and tries
// again until the job is done.
func TestExampleHostIsKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	program := harness.ProgramFile(t, "pkg/tools/examples/host")
	for _, grows := range []time.Duration{1 * time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond} {
		t.Run(grows.String(), func(t *testing.T) {
			t.Parallel()
			h, l, _ := localHost(t, program)
			harness.Put(t, harness.Launch(t, l, launcher.Spec{ID: h.job}), "go", "") // the long command does not have to wait
			h.untilDone(t, grows)
			transcript := strings.Join(h.transcript(t), "\n")
			switch {
			case strings.Contains(transcript, "Edit -> "+editDone):
				h.isWhole(t, editDone, "one one")
			case strings.Contains(transcript, `\none one\n`):
				h.isWhole(t, editUnknown, "one one")
			default:
				h.isWhole(t, editUnknown, "one")
			}
			h.forgets(t)
		})
	}
}

// untilDone tries a job until it is done. It kills each try later than the one
// before, by at least a twentieth.
func (h *exampleHost) untilDone(t *testing.T, grows time.Duration) {
	t.Helper()
	deadline := time.Now().Add(harness.Hung)
	var wait time.Duration
	for n := 0; time.Now().Before(deadline); n++ {
		wait += max(grows, wait/20)
		try := h.try(t)
		select {
		case <-try.ended:
			try.succeeds()
			t.Logf("it was killed %d times", n)
			return
		case <-time.After(wait):
			try.kill()
		}
	}
	t.Fatalf("it is not done after %v", harness.Hung)
}
