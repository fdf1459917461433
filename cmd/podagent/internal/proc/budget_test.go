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
	"sync"
	"testing"
	"time"
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
// its reader.
func settled(p *Process) bool {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	for _, s := range p.out.streams {
		if s.journal.end < crowdSize && !s.waiting {
			return false
		}
	}
	return true
}

// checkAccounts compares the budget with what the outputs of processes take.
func checkAccounts(t *testing.T, m *Manager) {
	t.Helper()
	m.mu.Lock()
	all := m.processes()
	m.mu.Unlock()
	m.budget.store.trim()
	for medium := range m.budget.accounts {
		sum := 0
		eventually(t, "the right count", func() bool {
			sum = 0
			for _, p := range all { // some may still print
				sum += takes(p)[medium]
			}
			return used(m)[medium] == sum
		})
		t.Logf("the journals take %d MB on medium %d", sum/1e6, medium)
	}
}

// takes is what the journals of a process take, by medium.
func takes(p *Process) [2]int {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.takes
}

func used(m *Manager) (used [2]int) {
	for i, a := range m.budget.accounts {
		a.mu.Lock()
		used[i] = a.used
		a.mu.Unlock()
	}
	return used
}

func liveHeap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // what is in a pool outlives one
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestManyProcessesThatPrintFitIntoTheRoomOfAll(t *testing.T) {
	overEach(t, func(t *testing.T, newManager makeManager) {
		m := newManager(t, func(l *limits) { l.disk.total, l.attachGrace, l.stall = memoryTotal, hung, hung })
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
		checkAccounts(t, m)
		if n := used(m)[onDisk]; n > m.lim.disk.total {
			t.Errorf("%d bytes are on disk", n)
		}
		readCrowd(t, all)
		checkAccounts(t, m)
		for _, p := range all {
			if err := m.Forget(p.ID()); err != nil {
				t.Error(err)
			}
		}
		m.budget.store.trim()
		eventually(t, "giving all room back", func() bool { return used(m) == [2]int{} })
	})
}

func readCrowd(t *testing.T, all []*Process) {
	t.Helper()
	var readers sync.WaitGroup
	for i, p := range all {
		readers.Go(func() {
			if err := readOne(testContext(t), p, i); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	readers.Wait()
}

// readOne reads number i of the crowd and ends it.
func readOne(ctx context.Context, p *Process, i int) error {
	go endOnceRead(ctx, p)
	r, err := collect(ctx, p, 0, 0)
	if err != nil {
		return err
	}
	for k, got := range []*bytes.Buffer{&r.stdout, &r.stderr} {
		want := numbers(k)
		switch omitted := r.omitted[k]; {
		case i%2 == 0 && omitted > 0:
			return fmt.Errorf("%d bytes were omitted for a reader", omitted)
		case omitted > crowdSize-journalMin/2:
			return fmt.Errorf("%d bytes were omitted", omitted)
		case !bytes.Equal(got.Bytes(), want[omitted:]):
			return errors.New("the output differs")
		}
	}
	return nil
}

// endOnceRead ends the input of a process once its output is read: when a process has
// ended, output that nobody reads is the first to go.
func endOnceRead(ctx context.Context, p *Process) {
	for read := false; !read && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		p.out.mu.Lock()
		read = len(p.out.readers) > 0
		p.out.mu.Unlock()
	}
	p.CloseStdin()
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

// oneJournal has room for one full journal.
func oneJournal(l *limits) {
	b := bounds{process: memorySize, replay: memoryReplay, total: memorySize + 4*journalMin, spare: journalMin}
	l.memory, l.disk = b, b
}

// isFull reports whether a process has all the room that one gets.
func isFull(m *Manager, p *Process) bool {
	return takes(p)[m.budget.store.medium()] >= memorySize-2*slotMin
}

// TestJournalsGiveWayInOrder has room for one full journal: it goes from an
// ended process to one that runs unread, and from that to one that is read.
func TestJournalsGiveWayInOrder(t *testing.T) {
	overEach(t, func(t *testing.T, newManager makeManager) {
		m := newManager(t, oneJournal)
		ended := fill(t, m, "")
		ended.CloseStdin()
		ended.Wait(testContext(t))
		if !isFull(m, ended) {
			t.Fatalf("the first has %d", takes(ended))
		}
		unread := fill(t, m, "read x")
		if e := takes(ended); e != [2]int{} || !isFull(m, unread) {
			t.Errorf("the ended one has %d, the running one %d", e, takes(unread))
		}
		read := start(t, m, withStdin(t, "sh", "-c", "head -c 3000000 /dev/zero; read x"))
		eventually(t, "growth", func() bool { return isFull(m, read) })
		if n := takes(unread)[m.budget.store.medium()]; n > memorySize/2 || n < journalMin {
			t.Errorf("the one without a reader has %d", n)
		}
		checkAccounts(t, m)
		read.CloseStdin()
		if r := finish(t, read); r.stdout.Len() != 3000000 {
			t.Errorf("got %d bytes", r.stdout.Len())
		}
		unread.CloseStdin()
		if r := finish(t, unread); r.omitted[0]+int64(r.stdout.Len()) != 3000000 {
			t.Errorf("omitted %d, got %d bytes", r.omitted[0], r.stdout.Len())
		}
	})
}

// TestReaderThatWaitsKeepsLittleBehindIt has a reader that took everything
// give way to one that did not come yet.
func TestReaderThatWaitsKeepsLittleBehindIt(t *testing.T) {
	overEach(t, func(t *testing.T, newManager makeManager) {
		m := newManager(t, oneJournal)
		idle := start(t, m, withStdin(t, "sh", "-c", "head -c 3000000 /dev/zero; read x; echo end"))
		first := make(chan *result)
		go func() { first <- finishAsync(testContext(t), idle) }()
		eventually(t, "the reader to wait", func() bool {
			n, _, _ := idle.out.sizes()
			idle.out.mu.Lock()
			defer idle.out.mu.Unlock()
			return n == 3000000 && idle.out.caughtUp()
		})
		if !isFull(m, idle) {
			t.Fatalf("it has %d", takes(idle))
		}
		busy := start(t, m, shell(t, "head -c 3000000 /dev/zero"))
		eventually(t, "growth", func() bool { return isFull(m, busy) })
		if n := takes(idle)[m.budget.store.medium()]; n > memorySize/2 || n < journalMin {
			t.Errorf("it still has %d", n)
		}
		if r := finish(t, busy); r.stdout.Len() != 3000000 || r.omitted[0] != 0 {
			t.Errorf("got %d bytes, omitted %v", r.stdout.Len(), r.omitted)
		}
		idle.CloseStdin()
		if r := <-first; r.stdout.Len() != 3000004 || r.omitted[0] != 0 {
			t.Errorf("got %d bytes, omitted %v", r.stdout.Len(), r.omitted)
		}
	})
}

func finishAsync(ctx context.Context, p *Process) *result {
	r, _ := collect(ctx, p, 0, 0)
	return r
}
