// A race detector sees nothing of other processes.

//go:build !race

package checkpoint_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// note is a file that a victim writes before each restore. No checkpoint has that before.
const note = "note"

// goBackAndForth restores two states of a tree in turn, without an end, and makes checkpoints between.
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
	// What it notes takes the place of what another one has noted.
	if _, err := s.Create(ctx, checkpoint.CreateOptions{}); err != nil {
		return err
	}
	for n := 0; ; {
		for _, name := range []string{"one", "other"} {
			id, err := named(s, name)
			if err != nil {
				return err
			}
			n++
			text := fmt.Sprint(os.Getpid(), " ", n)
			if err := os.WriteFile(filepath.Join(dir, "tree", note), []byte(text), 0o644); err != nil {
				return err
			}
			fmt.Println("restores with", text)
			if n%2 == 0 {
				if _, err := s.Create(ctx, checkpoint.CreateOptions{}); err != nil {
					return err
				}
			}
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

// However a restore, a checkpoint or a recovery is killed, the tree is one of the two states once the next process has recovered it,
// and nothing is lost that no checkpoint has.
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
	cut, recoveriesCut := 0, 0
	var recovery time.Duration // how long one takes that has something to do
	n, began := 0, time.Now()
	for ; isFull() && n < allKills || !isFull() && (n < fewKills || n < manyKills && time.Since(began) < killTime); n++ {
		restore := 3
		if n%4 == 0 {
			restore = 2 // before which there is a checkpoint
		}
		noted := killVictim(t, dir, restore, 0)
		if isCutOff(dir) && recovery > 0 && rand.N(2) == 0 {
			killVictim(t, dir, 0, rand.N(recovery))
			if isCutOff(dir) {
				recoveriesCut++
			}
		}
		s, err := checkpoint.Open(filepath.Join(dir, "store"), g.root, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cutOff, recovers := s.Interrupted(), time.Now()
		if err := s.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if cutOff {
			cut++
			recovery = time.Since(recovers)
		}
		wantNoted(t, g.root, s, noted)
		now := g.look()
		delete(now, note)
		if one, other := cmp.Diff(states["one"], now), cmp.Diff(states["other"], now); one != "" && other != "" {
			t.Fatalf("it is neither: %s\n%s", one, other)
		}
		for name := range states {
			if _, err := named(s, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if cut < n/20 || recoveriesCut == 0 {
		t.Errorf("of %d restores, only %d were cut off, and %d of their recoveries", n, cut, recoveriesCut)
	}
}

// isCutOff reports whether a restore has not come to its end.
func isCutOff(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "store", "journal"))
	return err == nil
}

// wantNoted expects what a victim has noted last in the tree, or in a checkpoint.
func wantNoted(t *testing.T, root string, s *checkpoint.Store, text string) {
	t.Helper()
	if now, err := os.ReadFile(filepath.Join(root, note)); err == nil && string(now) == text {
		return
	}
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := named(s, "one")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Backward(list) {
		for d, err := range s.Diff(t.Context(), first, c.ID, checkpoint.DiffOptions{Text: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Path == note && strings.Contains(string(d.Diff), "+"+text+"\n") {
				return
			}
		}
	}
	t.Fatalf("%q is neither in the tree nor in a checkpoint", text)
}

// killVictim starts a process that recovers and then restores, and kills it: after a time from the beginning of one of the
// restores, or of the recovery if that is the zeroth. If the time is 0 it is at any moment of that restore, or soon after it.
// It returns what the process noted last.
func killVictim(t *testing.T, dir string, restore int, after time.Duration) (noted string) {
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
	lines := bufio.NewScanner(out)
	const restores = "restores with "
	var began time.Time
	for n := 0; n <= restore; n++ {
		began = time.Now()
		want := restores
		if n == 0 {
			want = "recovers"
		}
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
			t.Fatalf("it printed %q, %v", lines.Text(), lines.Err())
		}
		noted = strings.TrimPrefix(lines.Text(), want)
	}
	if after == 0 {
		after = rand.N(time.Since(began))
	}
	time.Sleep(after) // at a moment that is random, and not until something has happened
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		var ok bool
		if noted, ok = strings.CutPrefix(lines.Text(), restores); !ok {
			t.Fatalf("it ended by itself: %s", lines.Text())
		}
	}
	_ = cmd.Wait()
	return noted
}
