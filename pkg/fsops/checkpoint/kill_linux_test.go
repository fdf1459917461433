// A race detector sees nothing of other processes.

//go:build !race

package checkpoint_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// kills is how often a process is killed; PODAGENT_CHECKPOINT_KILLS has it more often.
const kills = 100

const victimVariable = "PODAGENT_CHECKPOINT_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimVariable); dir != "" {
		fmt.Println(goBackAndForth(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// goBackAndForth restores two states of a tree in turn, without an end.
func goBackAndForth(dir string) error {
	ctx := context.Background()
	s, err := checkpoint.Open(filepath.Join(dir, "store"), filepath.Join(dir, "tree"), checkpoint.Options{Max: 20})
	if err != nil {
		return err
	}
	if err := s.Recover(ctx); err != nil {
		return err
	}
	for {
		for _, name := range []string{"one", "other"} {
			id, err := named(s, name)
			if err != nil {
				return err
			}
			fmt.Println("restores")
			if _, err := s.Restore(ctx, id, checkpoint.RestoreOptions{}); err != nil {
				return err
			}
		}
	}
}

// named returns the checkpoint of a name.
func named(s *checkpoint.Store, name string) (checkpoint.ID, error) {
	list, err := s.List(context.Background())
	for _, c := range list {
		if c.Name == name {
			return c.ID, err
		}
	}
	return "", fmt.Errorf("no checkpoint %q: %w", name, err)
}

// However a restore or a checkpoint is killed, the tree is one of the two states once the next process has recovered it.
func TestKilledProcessesLeaveOneOfTheStates(t *testing.T) {
	n := kills
	if text := os.Getenv("PODAGENT_CHECKPOINT_KILLS"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
	}
	g := newGarden(t, 7)
	dir := filepath.Dir(g.root)
	defer os.RemoveAll(dir)
	states := map[string]map[string]string{}
	for _, name := range []string{"one", "other"} {
		for range 200 {
			g.grow()
		}
		if _, err := g.store.Create(t.Context(), checkpoint.CreateOptions{Name: name}); err != nil {
			t.Fatal(err)
		}
		states[name] = g.look()
	}
	cut := 0
	for range n {
		killVictim(t, dir)
		s, err := checkpoint.Open(filepath.Join(dir, "store"), g.root, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Interrupted() {
			cut++
		}
		if err := s.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := g.look()
		if one, other := cmp.Diff(states["one"], now), cmp.Diff(states["other"], now); one != "" && other != "" {
			t.Fatalf("it is neither: %s\n%s", one, other)
		}
		for name := range states {
			if _, err := named(s, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if cut < n/20 {
		t.Errorf("only %d of %d restores were cut off", cut, n)
	}
}

// killVictim starts a process that restores, and kills it after a while.
func killVictim(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	var began time.Time
	for n := 0; n < 2; n++ {
		began = time.Now()
		if line, err := lines.ReadString('\n'); line != "restores\n" {
			t.Fatalf("it printed %q, %v", line, err)
		}
	}
	time.Sleep(rand.N(time.Since(began))) // at any moment of the second restore, or soon after it
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(lines); strings.ReplaceAll(string(rest), "restores\n", "") != "" {
		t.Fatalf("it ended by itself: %s", rest)
	}
	_ = cmd.Wait()
}
