package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// newCluster returns a cluster in a new directory that was never up.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := open(t.TempDir(), "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sleeper returns a program that waits forever. It can ignore SIGTERM.
func sleeper(t *testing.T, ignoring string) program {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	return program{name: "sleeper", path: shell, args: []string{"-c", ignoring + "while :; do sleep 1000; done"}}
}

// start starts a sleeper and waits until both of its processes have their markers:
// a process has none while its program is being loaded.
func start(t *testing.T, c *cluster, p program) process {
	t.Helper()
	started, err := c.spawn(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.killMarked(context.Background()) })
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	if err := until(ctx, func() (bool, error) { return len(marked(c.dir)) == 2, nil }); err != nil {
		t.Fatalf("%v are marked: %v", marked(c.dir), err)
	}
	return started
}

func TestAPIDUsedAgainIsAnotherProcess(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.alive() {
		t.Error("this process does not run")
	}
	for name, stale := range map[string]process{
		"started at another time": {PID: self.PID, Start: self.Start + 1, Boot: self.Boot},
		"of another boot":         {PID: self.PID, Start: self.Start, Boot: "another"},
		"none":                    {},
	} {
		if stale.alive() {
			t.Errorf("a process %s was taken for this one", name)
		}
	}
}

func TestAZombieHasEnded(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	p := process{PID: cmd.Process.Pid}
	for deadline := time.Now().Add(killTimeout); ; {
		now, err := identify(p.PID)
		if err != nil {
			break
		}
		if p = now; time.Now().After(deadline) {
			t.Fatal("the process did not end before the wait for it")
		}
	}
	if p.alive() {
		t.Error("the zombie counts as alive")
	}
}

func TestStatIsParsedWhateverTheNameIs(t *testing.T) {
	line := "12 (a) R ) S 1 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 1 2 3"
	want := stat{state: "S", threads: 3, start: 987654}
	if got, err := parseStat(line); got != want || err != nil {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := parseStat("12 (a) S 1"); err == nil {
		t.Error("an incomplete line was parsed")
	}
}

func TestProgramsThatIgnoreTERMAreStopped(t *testing.T) {
	for name, ignoring := range map[string]string{"willing": "", "unwilling": "trap '' TERM; "} {
		c := newCluster(t)
		p := start(t, c, sleeper(t, ignoring))
		if err := stop(t.Context(), []process{p}, false); err != nil || p.alive() {
			t.Errorf("%s: it is still running: %v", name, err)
		}
		if err := c.killMarked(t.Context()); err != nil || len(marked(c.dir)) > 0 {
			t.Errorf("%s: its child is still running: %v", name, err)
		}
	}
}

func TestAnUnrecordedProgramIsFound(t *testing.T) {
	c, p := newCluster(t), sleeper(t, "")
	started := start(t, c, p)
	if err := os.Remove(c.Pids); err != nil {
		t.Fatal(err)
	}
	if found, ok := c.running(p); !ok || found != started {
		t.Errorf("found %v, %v; want %v", found, ok, started)
	}
	if records, err := c.records(); err != nil || records[p.name] != started {
		t.Errorf("it is recorded as %v, %v", records, err)
	}
	if other, ok := newCluster(t).running(p); ok {
		t.Errorf("another cluster took %v for its own", other)
	}
}

func TestStaleRecordsAreNotRunning(t *testing.T) {
	c, p := newCluster(t), sleeper(t, "")
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.Start--
	if err := c.record(p.name, self); err != nil {
		t.Fatal(err)
	}
	if found, ok := c.running(p); ok {
		t.Errorf("process %d, which has a stale record's pid, was taken for the program", found.PID)
	}
}

func TestALargeLogIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxLog+1); err != nil {
		t.Fatal(err)
	}
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if info, err := log.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("the log begins with %d bytes, %v", info.Size(), err)
	}
	if old, err := os.Stat(path + ".1"); err != nil || old.Size() != maxLog+1 {
		t.Errorf("the old log is not kept: %v", err)
	}
}
