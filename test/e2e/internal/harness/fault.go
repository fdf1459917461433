package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// faultSize is how many bytes each call of [TestFault] moves. After a quarter of
// them a fault may strike; after half of them the call waits for it.
func faultSize() int64 { return Size(256 << 20) }

// faultTime is how long the second quarter takes if no fault strikes. The bytes
// move so slowly that some are moving when one does.
const faultTime = 15 * time.Second

// smallPeriod is the time between two writes of small files beside the calls.
const smallPeriod = 100 * time.Millisecond

// patience is how long an agent keeps all output for a lost reader, 30 s, less the
// time for data that is still under way.
const patience = 20 * time.Second

// TestFault lets a fault strike in the middle of a write, a read and an exec that
// run in parallel, beside small writes. It checks the results of all of them, the
// workspace, and the next call. kills says that the fault ends the agent.
func TestFault(t *testing.T, s *launcher.Sandbox, kills bool, strike func()) {
	Put(t, s, "written/file", "old")
	content, _, _ := Run(t, s, fmt.Sprintf("mkdir read && head -c %d /dev/urandom > read/file && sha256sum < read/file", faultSize()), nil)
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
	defer cancel()
	struck := make(chan struct{})
	over := sync.OnceFunc(func() { close(struck) })
	defer over() // so that the calls continue even if strike fails
	calls := []*faultyCall{newCall("write", writeFaulty, struck), newCall("read", readFaulty, struck), newCall("exec", execFaulty, struck)}
	small := writeSmallFiles(ctx, s)
	for _, c := range calls {
		go c.run(ctx, s)
	}
	for _, c := range calls {
		c.awaitMark(t)
	}
	strike()
	over()
	for _, c := range calls {
		<-c.done
		t.Run(c.name, func(t *testing.T) { c.check(t, content, kills) })
	}
	written := small.stop()
	t.Run("next call", func(t *testing.T) { checkNextCall(t, s) })
	t.Run("workspace", func(t *testing.T) {
		checkWritten(t, s, calls[0].err)
		if got, _, _ := Run(t, s, "sha256sum < read/file", nil); got != content {
			t.Errorf("the file that was read now has SHA-256 %s, and had %s", got, content)
		}
		checkSmallFiles(t, s, written)
		if got, want := Names(t, s, "."), []string{"next", "read", "small", "written"}; !slices.Equal(got, want) {
			t.Errorf("the workspace has %q, want %q", got, want)
		}
	})
}

// faultyCall is a call in the middle of which a fault strikes.
type faultyCall struct {
	name   string
	do     func(ctx context.Context, s *launcher.Sandbox, c *faultyCall) error
	struck <-chan struct{}
	marked chan struct{} // closed when a quarter of the bytes has moved
	done   chan struct{}

	// Only the call's own goroutine uses these, until done is closed.
	moved   int64
	sum     hash.Hash
	omitted int64 // in the output of an exec
	last    time.Time
	gap     time.Duration // the longest time in which nothing moved
	err     error
	early   bool // it ended before the fault struck
}

func newCall(name string, do func(context.Context, *launcher.Sandbox, *faultyCall) error, struck <-chan struct{}) *faultyCall {
	return &faultyCall{name: name, do: do, struck: struck, marked: make(chan struct{}), done: make(chan struct{}), sum: sha256.New()}
}

func (c *faultyCall) run(ctx context.Context, s *launcher.Sandbox) {
	defer close(c.done)
	c.err = c.do(ctx, s, c)
	select {
	case <-c.struck:
	default:
		c.early = c.err == nil // an error may come while the fault strikes
	}
}

// move records that n bytes have moved. Until the fault has struck, bytes move
// slowly in the second quarter, and not at all after it.
func (c *faultyCall) move(n int) {
	if !c.last.IsZero() {
		c.gap = max(c.gap, time.Since(c.last))
	}
	c.last = time.Now()
	quarter, before := faultSize()/4, c.moved
	c.moved += int64(n)
	if c.moved < quarter {
		return
	}
	if before < quarter {
		close(c.marked)
	}
	var delay <-chan time.Time // blocks forever
	if c.moved < 2*quarter {
		delay = time.After(faultTime * time.Duration(n) / time.Duration(quarter))
	}
	select {
	case <-c.struck:
	case <-delay:
	}
}

// Write takes the bytes that the call reads.
func (c *faultyCall) Write(data []byte) (int, error) {
	c.move(len(data))
	return c.sum.Write(data)
}

// awaitMark waits until the call is well under way.
func (c *faultyCall) awaitMark(t *testing.T) {
	t.Helper()
	select {
	case <-c.marked:
	case <-c.done:
		t.Fatalf("%s ended before the fault: %v", c.name, c.err)
	}
}

// check checks that the call has moved everything, with content's checksum, or has
// ended with an error that says that it was cut. For an exec, that error is allowed
// only if its agent was killed.
func (c *faultyCall) check(t *testing.T, content string, kills bool) {
	t.Logf("moved %d MiB, omitted %d: %v", c.moved>>20, c.omitted, c.err)
	if c.early {
		t.Error("it ended before the fault struck, which then shows nothing")
	}
	switch {
	case c.name == "exec" && c.err != nil:
		if !kills || !errors.Is(c.err, podapi.ErrAgentLost) {
			t.Errorf("the command was not resumed: %v", c.err)
		}
		return
	case c.err != nil:
		if !IsCut(c.err) {
			t.Errorf("the error does not say that the connection broke: %v", c.err)
		}
		return
	case c.omitted > 0:
		if c.moved+c.omitted != faultSize() || c.gap < patience {
			t.Errorf("%d bytes arrived and %d were omitted, of %d, with a gap of %v", c.moved, c.omitted, faultSize(), c.gap)
		}
		return
	}
	if got := fmt.Sprintf("%x  -\n", c.sum.Sum(nil)); c.name != "write" && got != content {
		t.Errorf("it succeeded with %d bytes of SHA-256 %s, want %s", c.moved, got, content)
	}
}

func writeFaulty(ctx context.Context, s *launcher.Sandbox, c *faultyCall) error {
	w, err := s.Create(ctx, "written/file", fsops.WriteOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := io.Copy(w, io.TeeReader(Pattern(faultSize(), 1), c)); err != nil {
		return err
	}
	_, err = w.Commit()
	return err
}

func readFaulty(ctx context.Context, s *launcher.Sandbox, c *faultyCall) error {
	_, err := s.Read(ctx, "read/file", c, fsops.ReadOptions{})
	return err
}

func execFaulty(ctx context.Context, s *launcher.Sandbox, c *faultyCall) error {
	cmd := s.Command(ctx, "cat", "read/file")
	cmd.Stdout = c
	err := cmd.Run()
	if status := cmd.Process.Status(); status != nil {
		c.omitted = status.Omitted
	}
	return err
}

// checkNextCall checks that calls work again without a new launch.
func checkNextCall(t *testing.T, s *launcher.Sandbox) {
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
	defer cancel()
	if err := s.WriteFile(ctx, "next", []byte("content"), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Command(ctx, "cat", "next").Output(); string(out) != "content" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// checkWritten checks that the target of a write is unchanged or complete.
func checkWritten(t *testing.T, s *launcher.Sandbox, err error) {
	t.Helper()
	if err != nil {
		Intact(t, s, "written", "file", "old")
		return
	}
	Download(t, s, "written/file", faultSize(), 1)
	if got := Names(t, s, "written"); !slices.Equal(got, []string{"file"}) {
		t.Errorf("there are other files beside the target: %q", got)
	}
}

// smallWrites are writes of small files, one after the other.
type smallWrites struct {
	end     chan struct{}
	done    sync.WaitGroup
	results map[string]error
}

// smallContent is the content of each small file.
var smallContent = bytes.Repeat([]byte("small "), 1000)

// writeSmallFiles writes small files until stop is called.
func writeSmallFiles(ctx context.Context, s *launcher.Sandbox) *smallWrites {
	w := &smallWrites{end: make(chan struct{}), results: map[string]error{}}
	w.done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-w.end:
				return
			case <-time.After(smallPeriod):
			}
			name := fmt.Sprintf("%d", i)
			_, w.results[name] = s.Write(ctx, "small/"+name, bytes.NewReader(smallContent), fsops.WriteOptions{Parents: true})
		}
	})
	return w
}

// stop ends the writes and returns how each one ended.
func (w *smallWrites) stop() map[string]error {
	close(w.end)
	w.done.Wait()
	return w.results
}

// checkSmallFiles checks that the files of successful writes exist, that each file
// is complete, and that there are no others.
func checkSmallFiles(t *testing.T, s *launcher.Sandbox, results map[string]error) {
	t.Helper()
	there := Names(t, s, "small")
	failed := 0
	for name, err := range results {
		switch {
		case err == nil && !slices.Contains(there, name):
			t.Errorf("small file %s was written, but is missing", name)
		case err != nil && !IsCut(err):
			t.Errorf("small file %s: %v", name, err)
		case err != nil:
			failed++
		}
	}
	for _, name := range there {
		if got := Get(t, s, "small/"+name); got != string(smallContent) {
			t.Errorf("small file %s has %d bytes", name, len(got))
		}
		if _, ok := results[name]; !ok {
			t.Errorf("%s is left over", name)
		}
	}
	t.Logf("%d small files, %d failed", len(results), failed)
}
