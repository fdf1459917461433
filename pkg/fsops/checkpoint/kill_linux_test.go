// A race detector sees nothing of other processes.

//go:build !race

package checkpoint_test

import (
	"bufio"
	"context"
	"errors"
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
	killTime            = 12 * time.Second
	allKills            = 500
)

// A tally counts what was killed, by what it did, and what was cut off.
type tally struct {
	kills int
	began time.Time
	limit time.Duration
	least map[string]int // ten times as often in a run of everything
	got   map[string]int
}

func newTally(limit time.Duration, least map[string]int) *tally {
	return &tally{began: time.Now(), limit: limit, least: least, got: map[string]int{}}
}

// goesOn reports whether there is to be one more kill. On a busy machine, many come too late.
func (c *tally) goesOn() bool {
	switch {
	case !c.isEnough():
		return c.kills < 4*allKills
	case isFull():
		return c.kills < allKills
	}
	return c.kills < fewKills || c.kills < manyKills && time.Since(c.began) < c.limit
}

func (c *tally) isEnough() bool {
	for what, least := range c.least {
		if isFull() {
			least *= 10
		}
		if c.got[what] < least {
			return false
		}
	}
	return true
}

func (c *tally) check(t *testing.T) {
	t.Helper()
	t.Logf("of %d processes that were killed: %v", c.kills, c.got)
	if !c.isEnough() {
		t.Errorf("it is to be %v at least", c.least)
	}
}

// The variables have the directory in which a process does what it is killed for.
const (
	victimVariable    = "PODAGENT_CHECKPOINT_VICTIM"
	populatorVariable = "PODAGENT_CHECKPOINT_POPULATOR"
)

func TestMain(m *testing.M) {
	for variable, act := range map[string]func(dir string) error{
		victimVariable: goBackAndForth, populatorVariable: populate, strangerVariable: actAsStranger, readOnlyVariable: restoreReadOnlyDirectories,
	} {
		dir := os.Getenv(variable)
		if dir == "" {
			continue
		}
		if err := act(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// note is a file that a victim writes before each restore. No checkpoint has that before.
const note = "note"

// What a victim prints before it does it.
const (
	recovers         = "recovers"
	notes            = "notes " // and what
	makesACheckpoint = "makes a checkpoint"
	restores         = "restores"
	populates        = "populates"
	isDone           = "is done"
)

// What a kill leaves to be completed or undone.
const (
	restoreCut  = "a restore cut off"
	recoveryCut = "a recovery cut off"
	populateCut = "a Populate cut off"
)

// goBackAndForth restores two states of a tree in turn, without an end, and makes checkpoints between.
func goBackAndForth(dir string) error {
	ctx := context.Background()
	s, err := checkpoint.Open(filepath.Join(dir, "store"), filepath.Join(dir, "tree"), checkpoint.Options{Max: 20})
	if err != nil {
		return err
	}
	fmt.Println(recovers)
	if err := s.Recover(ctx); err != nil {
		return err
	}
	// What it notes takes the place of what another one has noted.
	if _, err := s.Create(ctx, checkpoint.CreateOptions{}); err != nil {
		return err
	}
	for n := 0; ; n++ {
		id, err := named(s, []string{"one", "other"}[n%2])
		if err != nil {
			return err
		}
		text := fmt.Sprint(os.Getpid(), " ", n)
		if err := os.WriteFile(filepath.Join(dir, "tree", note), []byte(text), 0o644); err != nil {
			return err
		}
		fmt.Println(notes + text)
		if n%2 == 0 {
			fmt.Println(makesACheckpoint)
			if _, err := s.Create(ctx, checkpoint.CreateOptions{}); err != nil {
				return err
			}
		}
		fmt.Println(restores)
		if _, err := s.Restore(ctx, id, checkpoint.RestoreOptions{}); err != nil {
			return err
		}
	}
}

// populate fills a tree with a checkpoint, and waits to be killed.
func populate(dir string) error {
	s, err := checkpoint.Open(filepath.Join(dir, "store"), filepath.Join(dir, "tree"), checkpoint.Options{})
	if err != nil {
		return err
	}
	id, err := named(s, "one")
	if err != nil {
		return err
	}
	fmt.Println(populates)
	if _, err := s.Populate(context.Background(), id); err != nil {
		return err
	}
	fmt.Println(isDone)
	_, err = os.Stdin.Read(make([]byte, 1))
	return err
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

// A victim is a process that says what it does, until it is killed.
type victim struct {
	t            *testing.T
	cmd          *exec.Cmd
	lines        *bufio.Scanner
	doing, noted string
	began        time.Time                // what it does
	took         map[string]time.Duration // what it did
}

// startVictim starts a process that finds this directory in a variable of its environment.
func startVictim(t *testing.T, variable, dir string) *victim {
	t.Helper()
	v := &victim{t: t, cmd: exec.Command(os.Args[0]), took: map[string]time.Duration{}}
	v.cmd.Env = append(os.Environ(), variable+"="+dir)
	out, err := v.cmd.StdoutPipe()
	if err == nil {
		_, err = v.cmd.StdinPipe() // which never has anything
	}
	if err == nil {
		err = v.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill() // which a test that failed has not done
		_ = v.cmd.Wait()
	})
	v.lines = bufio.NewScanner(out)
	return v
}

// next waits until a victim does something else, and reports whether it does.
func (v *victim) next() bool {
	v.t.Helper()
	if !v.lines.Scan() {
		return false
	}
	now, line := time.Now(), v.lines.Text()
	if v.doing != "" {
		v.took[v.doing] = now.Sub(v.began)
	}
	v.began = now
	if text, ok := strings.CutPrefix(line, notes); ok {
		v.noted, line = text, notes
	}
	if v.doing = line; !slices.Contains([]string{recovers, notes, makesACheckpoint, restores, populates, isDone}, line) {
		v.t.Fatalf("it ended by itself: %s", line)
	}
	return true
}

// await waits until a victim does this for the nth time.
func (v *victim) await(what string, nth int) {
	v.t.Helper()
	for n := 0; n < nth; {
		if !v.next() {
			v.t.Fatalf("it ended while it %s", v.doing)
		}
		if v.doing == what {
			n++
		}
	}
}

// kill kills a victim after this time, whatever it does then.
func (v *victim) kill(after time.Duration) {
	v.t.Helper()
	time.Sleep(after)
	if err := v.cmd.Process.Kill(); err != nil {
		v.t.Fatal(err)
	}
	for v.next() {
	}
	_ = v.cmd.Wait()
}

// However a restore, a checkpoint or a recovery is killed, the tree is one of the two states once the next process has recovered it,
// and nothing is lost that no checkpoint has.
func TestKilledProcessesLeaveOneOfTheStates(t *testing.T) {
	rt := newRandomTree(t, 7)
	dir := filepath.Dir(rt.root)
	defer os.RemoveAll(dir)
	states := map[string]map[string]string{}
	for _, name := range []string{"one", "other"} {
		for range 200 {
			rt.alter()
		}
		if _, err := rt.store.Create(t.Context(), checkpoint.CreateOptions{Name: name}); err != nil {
			t.Fatal(err)
		}
		states[name] = rt.look()
	}
	count := newTally(killTime, map[string]int{restores: 10, makesACheckpoint: 3, restoreCut: 5, recoveryCut: 1})
	var recovery time.Duration // how long one takes that has something to do
	for ; count.goesOn(); count.kills++ {
		what := restores
		if count.kills%4 == 0 {
			what = makesACheckpoint
		}
		v := killDoing(t, dir, what)
		noted := v.noted
		count.got[v.doing]++
		if isCutOff(dir) {
			count.got[restoreCut]++
			if recovery > 0 && rand.N(2) == 0 {
				v := startVictim(t, victimVariable, dir)
				v.await(recovers, 1)
				v.kill(rand.N(recovery))
				if v.noted != "" {
					noted = v.noted
				}
				if isCutOff(dir) {
					count.got[recoveryCut]++
				}
			}
		}
		recovery = max(recovery, wantOneOf(t, rt, states, noted))
	}
	count.check(t)
}

// killDoing has a process restore and make checkpoints, and kills it at a random moment of what it does then.
func killDoing(t *testing.T, dir, what string) *victim {
	t.Helper()
	v := startVictim(t, victimVariable, dir)
	v.await(what, 3) // the first takes longer
	v.kill(rand.N(v.took[what]))
	return v
}

// wantOneOf recovers a tree, and expects one of the states, and all of them and what a victim has noted last among the checkpoints.
// It returns how long the recovery took if there was something to do.
func wantOneOf(t *testing.T, rt *randomTree, states map[string]map[string]string, noted string) (recovery time.Duration) {
	t.Helper()
	s, err := checkpoint.Open(filepath.Join(filepath.Dir(rt.root), "store"), rt.root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	interrupted, began := s.Interrupted(), time.Now()
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if interrupted {
		recovery = time.Since(began)
	}
	wantNoted(t, rt.root, s, noted)
	now := rt.look()
	delete(now, note)
	if one, other := cmp.Diff(states["one"], now), cmp.Diff(states["other"], now); one != "" && other != "" {
		t.Fatalf("it is neither: %s\n%s", one, other)
	}
	for name := range states {
		if _, err := named(s, name); err != nil {
			t.Fatal(err)
		}
	}
	return recovery
}

// However a Populate is killed, the tree has all that the checkpoint has once the next process has recovered it, or nothing, and
// then it can be populated.
func TestKilledPopulatesLeaveAllOrNothing(t *testing.T) {
	rt := newRandomTree(t, 8)
	dir := filepath.Dir(rt.root)
	defer os.RemoveAll(dir)
	for range 200 {
		rt.alter()
	}
	c, err := rt.store.Create(t.Context(), checkpoint.CreateOptions{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	want := rt.look()
	clearTree(t, rt.root)
	v := startVictim(t, populatorVariable, dir)
	v.await(isDone, 1)
	v.kill(0)
	took, count := v.took[populates], newTally(killTime/4, map[string]int{populateCut: 3})
	for ; count.goesOn(); count.kills++ {
		clearTree(t, rt.root)
		if err := os.Remove(filepath.Join(dir, "store", "populated")); err != nil {
			t.Fatal(err)
		}
		v := startVictim(t, populatorVariable, dir)
		v.await(populates, 1)
		v.kill(rand.N(took))
		took += took / 8 // until one is done before it is killed: then it is known again
		if v.doing == isDone {
			took = v.took[populates]
		}
		if isCutOff(dir) {
			count.got[populateCut]++
		}
		s, err := checkpoint.Open(filepath.Join(dir, "store"), rt.root, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(rt.look()) == 0 {
			if _, err := s.Populate(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, rt.look()); diff != "" {
			t.Fatalf("(-checkpoint +populated)\n%s", diff)
		}
	}
	count.check(t)
}

// clearTree removes all that is in a directory.
func clearTree(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name())))
	}
	if err != nil {
		t.Fatal(err)
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
