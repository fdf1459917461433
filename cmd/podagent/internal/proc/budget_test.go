package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

const (
	crowd     = 200
	crowdSize = 1_200_000
)

// numbers are the decimal numbers from first on, a line each, cut.
func numbers(first int) []byte {
	var b []byte
	for i := first; len(b) < crowdSize; i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return b[:crowdSize]
}

// startCrowd starts processes that print numbers on both outputs at once and
// stay. Every other one has nobody who reads it, or is expected to.
func startCrowd(t *testing.T, m *Manager) []*Process {
	t.Helper()
	dir := t.TempDir()
	for k, name := range []string{"out", "err"} {
		if err := os.WriteFile(filepath.Join(dir, name), numbers(k), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var all []*Process
	for i := range crowd {
		spec := shell(t, "cat err >&2 & cat out; wait; read x")
		spec.Dir = dir
		spec.Stdin = true
		p := start(t, m, spec)
		if i%2 == 1 {
			p.out.mu.Lock()
			p.out.leases = nil
			p.out.wakePumps()
			p.out.mu.Unlock()
		}
		all = append(all, p)
	}
	return all
}

// settled reports whether a process of the crowd has printed all, or waits for
// its reader with both outputs.
func settled(p *Process) bool {
	o := p.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, s := range o.streams {
		if s.journal.end < crowdSize && (o.unattended() || s.journal.end == 0 || o.room(i) > 0) {
			return false
		}
	}
	return true
}

// checkAccount compares the budget with the journals.
func checkAccount(t *testing.T, m *Manager) {
	t.Helper()
	_, all := m.journals()
	sum := 0
	for _, o := range all {
		o.mu.Lock()
		for _, s := range o.streams {
			sum += len(s.journal.ring)
		}
		o.mu.Unlock()
	}
	if used := usedBytes(m); used != sum {
		t.Errorf("%d bytes are counted, the journals take %d", used, sum)
	}
	t.Logf("the journals take %d MB", sum/1e6)
}

func usedBytes(m *Manager) int {
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	return m.budget.used
}

func liveHeap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // what is in a pool outlives one
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestManyProcessesThatPrintFitIntoTheMemory(t *testing.T) {
	m := newManager(t)
	before := liveHeap()
	all := startCrowd(t, m)
	for _, p := range all {
		eventually(t, "printing", func() bool { return settled(p) })
	}
	grown := liveHeap() - before
	if grown > 100e6 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	t.Logf("the heap grew by %d MB", grown/1e6)
	checkAccount(t, m)
	results := make([]chan error, crowd)
	for i, p := range all {
		results[i] = make(chan error, 1)
		go func() { results[i] <- readOne(testContext(t), p, i) }()
	}
	for i, result := range results {
		if err := <-result; err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	checkAccount(t, m)
	for _, p := range all {
		if err := m.Forget(p.ID()); err != nil {
			t.Error(err)
		}
	}
	if n := usedBytes(m); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// readOne reads number i of the crowd and ends it.
func readOne(ctx context.Context, p *Process, i int) error {
	p.CloseStdin()
	r, err := collect(ctx, p, 0, 0)
	if err != nil {
		return err
	}
	for k, got := range []*bytes.Buffer{&r.stdout, &r.stderr} {
		want := numbers(k)
		switch omitted := r.omitted[k]; {
		case i%2 == 0 && omitted > 0:
			return fmt.Errorf("%d bytes were omitted for a reader", omitted)
		case i%2 == 1 && (omitted < crowdSize-JournalSize || omitted > crowdSize-journalMin):
			return fmt.Errorf("%d bytes were omitted", omitted)
		case !bytes.Equal(got.Bytes(), want[omitted:]):
			return errors.New("the output differs")
		}
	}
	return nil
}

// fill has a process print more than a journal holds, and waits for it.
func fill(t *testing.T, m *Manager, script string) *Process {
	t.Helper()
	spec := shell(t, "head -c 3000000 /dev/zero; "+script)
	spec.Stdin = true
	p := start(t, m, spec)
	p.out.mu.Lock()
	p.out.leases = nil
	p.out.wakePumps()
	p.out.mu.Unlock()
	eventually(t, "output", func() bool { n, _, _ := p.out.sizes(); return n == 3000000 })
	return p
}

func ringOf(p *Process) int {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return len(p.out.streams[0].journal.ring)
}

// TestJournalsGiveWayInOrder has room for one full journal: it goes from an
// ended process to one that runs unread, and from that to one that is read.
func TestJournalsGiveWayInOrder(t *testing.T) {
	m := newManager(t, func(l *limits) { l.journals = (JournalSize + 3*journalMin) / 3 * 4 })
	ended := fill(t, m, "")
	ended.CloseStdin()
	ended.Wait(testContext(t))
	if n := ringOf(ended); n != JournalSize {
		t.Fatalf("the first holds %d", n)
	}
	unread := fill(t, m, "read x")
	if e, u := ringOf(ended), ringOf(unread); e != 0 || u != JournalSize {
		t.Errorf("the ended one holds %d, the running one %d", e, u)
	}
	read := start(t, m, withStdin(t, "sh", "-c", "head -c 3000000 /dev/zero; read x"))
	eventually(t, "growth", func() bool { return ringOf(read) == JournalSize/2 })
	if n := ringOf(unread); n >= JournalSize || n < journalMin {
		t.Errorf("the one without a reader holds %d", n)
	}
	checkAccount(t, m)
	read.CloseStdin()
	if r := finish(t, read); r.stdout.Len() != 3000000 {
		t.Errorf("got %d bytes", r.stdout.Len())
	}
	unread.CloseStdin()
	if r := finish(t, unread); r.omitted[0]+int64(r.stdout.Len()) != 3000000 {
		t.Errorf("omitted %d, got %d bytes", r.omitted[0], r.stdout.Len())
	}
}

// TestReaderThatWaitsKeepsLittleBehindIt has a reader that took everything
// give way to one that did not come yet.
func TestReaderThatWaitsKeepsLittleBehindIt(t *testing.T) {
	m := newManager(t, func(l *limits) { l.journals = (JournalSize + 3*journalMin) / 3 * 4 })
	idle := start(t, m, withStdin(t, "sh", "-c", "head -c 3000000 /dev/zero; read x; echo end"))
	first := make(chan *result)
	go func() { first <- finishAsync(testContext(t), idle) }()
	eventually(t, "the reader to wait", func() bool {
		n, _, _ := idle.out.sizes()
		idle.out.mu.Lock()
		defer idle.out.mu.Unlock()
		return n == 3000000 && idle.out.caughtUp()
	})
	if n := ringOf(idle); n != JournalSize {
		t.Fatalf("it holds %d", n)
	}
	busy := start(t, m, shell(t, "head -c 3000000 /dev/zero"))
	eventually(t, "growth", func() bool { return ringOf(busy) == JournalSize/2 })
	if n := ringOf(idle); n >= JournalSize || n < journalMin {
		t.Errorf("it still holds %d", n)
	}
	if r := finish(t, busy); r.stdout.Len() != 3000000 || r.omitted[0] != 0 {
		t.Errorf("got %d bytes, omitted %v", r.stdout.Len(), r.omitted)
	}
	idle.CloseStdin()
	if r := <-first; r.stdout.Len() != 3000004 || r.omitted[0] != 0 {
		t.Errorf("got %d bytes, omitted %v", r.stdout.Len(), r.omitted)
	}
}

func finishAsync(ctx context.Context, p *Process) *result {
	r, _ := collect(ctx, p, 0, 0)
	return r
}
