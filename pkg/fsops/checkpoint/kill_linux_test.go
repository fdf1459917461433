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

// A process is killed as often as fits into killTime, within these bounds, and allKills times in a run of everything.
const (
	fewKills, manyKills = 25, 150
	killTime            = 15 * time.Second
	allKills            = 500
)

const victimVariable = "PODAGENT_CHECKPOINT_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimVariable); dir != "" {
		fmt.Println(goBackAndForth(dir))
		os.Exit(1)
	}
	if dir := os.Getenv(strangerVariable); dir != "" {
		if err := actAsStranger(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
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
	fmt.Println("recovers")
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

// However a restore, a checkpoint or a recovery is killed, the tree is one of the two states once the next process has recovered it.
func TestKilledProcessesLeaveOneOfTheStates(t *testing.T) {
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
	var recovery time.Duration // how long one takes
	n, began := 0, time.Now()
	for ; isFull() && n < allKills || !isFull() && (n < fewKills || n < manyKills && time.Since(began) < killTime); n++ {
		killVictim(t, dir, 2, 0)
		if recovery > 0 && rand.N(3) == 0 {
			killVictim(t, dir, 0, rand.N(recovery))
		}
		s, err := checkpoint.Open(filepath.Join(dir, "store"), g.root, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Interrupted() {
			cut++
		}
		recovers := time.Now()
		if err := s.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		recovery = time.Since(recovers)
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

// killVictim starts a process that recovers and then restores, and kills it: after a time from the beginning of one of the
// restores, or of the recovery if that is the zeroth. If the time is 0 it is at any moment of that restore, or soon after it.
func killVictim(t *testing.T, dir string, restore int, after time.Duration) {
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
	for n := 0; n <= restore; n++ {
		began = time.Now()
		want := "restores\n"
		if n == 0 {
			want = "recovers\n"
		}
		if line, err := lines.ReadString('\n'); line != want {
			t.Fatalf("it printed %q, %v", line, err)
		}
	}
	if after == 0 {
		after = rand.N(time.Since(began))
	}
	time.Sleep(after) // at a moment that is random, and not until something has happened
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(lines); strings.ReplaceAll(string(rest), "restores\n", "") != "" {
		t.Fatalf("it ended by itself: %s", rest)
	}
	_ = cmd.Wait()
}
