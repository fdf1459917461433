package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
)

// A stallingLog keeps whoever logs that a restore was cut off waiting.
type stallingLog struct {
	slog.Handler
	stalled, goOn chan struct{}
}

func (l stallingLog) Enabled(context.Context, slog.Level) bool { return true }

func (l stallingLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "calls that may use files wait") {
		close(l.stalled)
		<-l.goOn
	}
	return nil
}

// However long it takes to complete a restore that was cut off, the agent serves meanwhile, so that nobody takes it for
// dead. Calls that may use files wait, and find it complete.
func TestAgentServesWhileItCompletesARestore(t *testing.T) {
	store := t.TempDir()
	log := stallingLog{slog.DiscardHandler, make(chan struct{}), make(chan struct{})}
	workdir, socket := serveTest(t, func(c *Config) {
		put(t, c.Workdir, map[string]string{"a": "1"})
		cutOff(t, store, c.Workdir)
		put(t, c.Workdir, map[string]string{"a": "2"})
		c.Checkpoints, c.Log = store, slog.New(log)
		c.Main = []string{"sh", "-c", "cp a main; exec sleep 1000"}
	})
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	<-log.stalled
	if _, err := client.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		what, text string
		err        error
	}
	answers := make(chan answer, 3)
	go func() {
		text, err := client.ReadFile(t.Context(), "a")
		answers <- answer{"a file", string(text), err}
	}()
	go func() {
		text, err := client.Command(t.Context(), "cat", "a").Output()
		answers <- answer{"a command", string(text), err}
	}()
	go func() {
		_, err := client.Checkpoint(t.Context(), checkpoint.CreateOptions{})
		answers <- answer{"a checkpoint", "1", err}
	}()
	canceled, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := client.ReadFile(canceled, "a"); err == nil {
		t.Error("it read a file of neither state")
	}
	awaitCall(t, "checkpoints).settle")
	if len(answers) > 0 {
		t.Errorf("somebody did not wait: %+v", <-answers)
	}
	close(log.goOn)
	for range cap(answers) {
		if a := <-answers; a.err != nil || a.text != "1" {
			t.Errorf("%s: %q, %v", a.what, a.text, a.err)
		}
	}
	// Main has begun by now, or soon does.
	for deadline := time.Now().Add(hung); read(t, filepath.Join(workdir, "main")) != "1"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("its command did not begin, or before the restore was complete")
		}
	}
}

// An agent that can neither complete nor undo a restore serves, tells whoever makes a checkpoint, and goes on once that is
// decided.
func TestRestoreThatCanBeNeitherCompletedNorUndoneIsTold(t *testing.T) {
	workdir, _, client := withCheckpoints(t, func(c *Config) {
		put(t, c.Workdir, map[string]string{"a": "1"})
		cutOff(t, c.Checkpoints, c.Workdir)
		put(t, c.Workdir, map[string]string{"a": "2"})
		damagePacks(t, c.Checkpoints)
	})
	if out, err := client.Command(t.Context(), "sh", "-c", "echo work >new; cat a").CombinedOutput(); err != nil || string(out) != "2" {
		t.Fatalf("a command prints %q, %v", out, err)
	}
	list, err := client.Checkpoints(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("there are %+v, %v", list, err)
	}
	if _, err := client.Checkpoint(t.Context(), checkpoint.CreateOptions{}); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), string(list[0].ID)) {
		t.Errorf("making a checkpoint: %v", err)
	}
	if err := client.RemoveCheckpoint(t.Context(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Checkpoint(t.Context(), checkpoint.CreateOptions{}); err != nil || read(t, filepath.Join(workdir, "new")) != "work\n" {
		t.Errorf("then making a checkpoint: %v", err)
	}
}

// damagePacks has nothing of what a store keeps be what it was.
func damagePacks(t *testing.T, store string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(store, "packs", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("there are %q, %v", packs, err)
	}
	for _, pack := range packs {
		put(t, store, map[string]string{"packs/" + filepath.Base(pack): "damaged"})
	}
}

// cutOff leaves a store as a restore of what is in the workdir does that is cut off.
func cutOff(t *testing.T, store, workdir string) {
	t.Helper()
	s, err := checkpoint.Open(store, workdir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Create(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"target": c.ID, "before": c.ID})
	if err == nil {
		err = os.WriteFile(filepath.Join(store, "journal"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
