package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

const (
	crowd     = 200
	crowdSize = 1_200_000
)

// startCrowd returns outputs to which numbers are written, to both streams at once.
// Every other output has no reader and expects none.
func startCrowd(b *Budget, texts [2][]byte) (all []*Output, written *sync.WaitGroup) {
	written = new(sync.WaitGroup)
	for i := range crowd {
		o := b.NewOutput(nil)
		if i%2 == 1 {
			o = unread(b)
		}
		for k, text := range texts {
			written.Go(func() { write(o.Stream(k), text) })
		}
		all = append(all, o)
	}
	return all, written
}

// isIdle reports whether each writer of an output has written all or waits for a
// reader.
func isIdle(o *Output) bool {
	st := o.State()
	for k := range st.Written {
		if st.Written[k] < crowdSize && !st.Waiting[k] {
			return false
		}
	}
	return true
}

// checkAccounts compares the budget with the space that the outputs take.
func checkAccounts(t *testing.T, b *Budget, all []*Output) {
	t.Helper()
	b.store.trim()
	for medium := range b.accounts {
		sum := 0
		eventually(t, "the right count", func() bool {
			sum = 0
			for _, o := range all { // some may still grow
				sum += takes(o)[medium]
			}
			return used(b)[medium] == sum
		})
		t.Logf("the journals take %d MB on medium %d", sum/1e6, medium)
	}
}

func liveHeap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // the contents of a pool survive one collection
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestManyOutputsFitIntoTheRoomOfAll(t *testing.T) {
	texts := [2][]byte{numbers(0, crowdSize), numbers(1, crowdSize)}
	overEach(t, func(t *testing.T, newBudget makeBudget) {
		b := newBudget(t, func(l *Limits) { l.Disk.Total, l.AttachGrace, l.Stall = memoryTotal, never, never })
		before := liveHeap()
		all, written := startCrowd(b, texts)
		for _, o := range all {
			eventually(t, "writing", func() bool { return isIdle(o) })
		}
		grown := liveHeap() - before
		if grown > 100e6 {
			t.Errorf("the heap grew by %d bytes", grown)
		}
		t.Logf("the heap grew by %d MB", grown/1e6)
		checkAccounts(t, b, all)
		if n := used(b)[onDisk]; n > b.lim.Disk.Total {
			t.Errorf("%d bytes are on disk", n)
		}
		readCrowd(t, all, texts)
		written.Wait()
		checkAccounts(t, b, all)
		for _, o := range all {
			o.Forget()
		}
		b.store.trim()
		eventually(t, "giving all room back", func() bool { return used(b) == [2]int{} })
	})
}

func readCrowd(t *testing.T, all []*Output, texts [2][]byte) {
	t.Helper()
	var readers sync.WaitGroup
	for i, o := range all {
		readers.Go(func() {
			if err := readOne(testContext(t), o, i, texts); err != nil {
				t.Errorf("output %d: %v", i, err)
			}
		})
	}
	readers.Wait()
}

// readOne reads output number i. It ends the output once both streams are written
// and the reader is attached, because a sealed output without a reader is the first
// to lose its journal.
func readOne(ctx context.Context, o *Output, i int, texts [2][]byte) error {
	reader, err := o.Attach(ReadOptions{})
	if err != nil {
		return err
	}
	var got result
	finished := false
	for ev, err := range reader.Events(ctx) {
		if err != nil {
			return err
		}
		got.streams[ev.Stream].Write(ev.Data)
		got.omitted[ev.Stream] += ev.Omitted
		if !finished && o.State().Written == [2]int64{crowdSize, crowdSize} {
			finished = true
			end(o)
		}
	}
	return checkText(&got, i%2 == 0, texts)
}

func checkText(got *result, attended bool, texts [2][]byte) error {
	for k, want := range texts {
		switch omitted := got.omitted[k]; {
		case attended && omitted > 0:
			return fmt.Errorf("%d bytes were omitted for a reader", omitted)
		case omitted > crowdSize-minSize/2:
			return fmt.Errorf("%d bytes were omitted", omitted)
		case !bytes.Equal(got.streams[k].Bytes(), want[omitted:]):
			return errors.New("the output differs")
		}
	}
	return nil
}

// full is more bytes than a journal holds in these tests.
const full = 3_000_000

// fill returns an output without a reader, with more bytes than it holds.
func fill(b *Budget) *Output {
	o := unread(b)
	write(o.Stream(0), make([]byte, full))
	return o
}

// oneJournal makes room for one full journal.
func oneJournal(l *Limits) {
	b := Bounds{Process: memorySize, Replay: memoryReplay, Total: memorySize + 4*minSize, Spare: minSize}
	l.Memory, l.Disk = b, b
}

// isFull reports whether an output has all the space that a single one can get.
func isFull(o *Output) bool {
	return takes(o)[o.budget.store.medium()] >= memorySize-2*slotMin
}

// TestJournalsGiveWayInOrder has room for one full journal. An ended output gives
// way to a running one without a reader, and that gives way to one with a reader.
func TestJournalsGiveWayInOrder(t *testing.T) {
	overEach(t, func(t *testing.T, newBudget makeBudget) {
		b := newBudget(t, oneJournal)
		ended := fill(b)
		end(ended)
		if !isFull(ended) {
			t.Fatalf("the first output has %d", takes(ended))
		}
		running := fill(b)
		if e := takes(ended); e != [2]int{} || !isFull(running) {
			t.Errorf("the ended output has %d, the running one %d", e, takes(running))
		}
		read := b.NewOutput(nil)
		go func() {
			write(read.Stream(0), make([]byte, full))
			end(read)
		}()
		eventually(t, "growth", func() bool { return isFull(read) })
		if n := takes(running)[b.store.medium()]; n > memorySize/2 || n < minSize {
			t.Errorf("the output without a reader has %d", n)
		}
		checkAccounts(t, b, []*Output{ended, running, read})
		if r := finish(t, read); r.streams[0].Len() != full {
			t.Errorf("got %d bytes", r.streams[0].Len())
		}
		end(running)
		if r := finish(t, running); r.omitted[0]+int64(r.streams[0].Len()) != full {
			t.Errorf("omitted %d, got %d bytes", r.omitted[0], r.streams[0].Len())
		}
	})
}

// TestReaderThatWaitsKeepsLittleBehindIt checks that an output whose reader took
// everything gives way to one whose reader has yet to come.
func TestReaderThatWaitsKeepsLittleBehindIt(t *testing.T) {
	overEach(t, func(t *testing.T, newBudget makeBudget) {
		b := newBudget(t, oneJournal)
		idle := b.NewOutput(nil)
		first := make(chan *result)
		go func() {
			r, _ := collect(testContext(t), idle, [2]int64{})
			first <- r
		}()
		write(idle.Stream(0), make([]byte, full))
		eventually(t, "the reader to wait", func() bool {
			idle.mu.Lock()
			defer idle.mu.Unlock()
			return idle.caughtUp()
		})
		if !isFull(idle) {
			t.Fatalf("it has %d", takes(idle))
		}
		busy := b.NewOutput(nil)
		go func() {
			write(busy.Stream(0), make([]byte, full))
			end(busy)
		}()
		eventually(t, "growth", func() bool { return isFull(busy) })
		if n := takes(idle)[b.store.medium()]; n > memorySize/2 || n < minSize {
			t.Errorf("it still has %d", n)
		}
		if r := finish(t, busy); r.streams[0].Len() != full || r.omitted[0] != 0 {
			t.Errorf("got %d bytes, omitted %v", r.streams[0].Len(), r.omitted)
		}
		write(idle.Stream(0), []byte("end\n"))
		end(idle)
		if r := <-first; r.streams[0].Len() != full+4 || r.omitted[0] != 0 {
			t.Errorf("got %d bytes, omitted %v", r.streams[0].Len(), r.omitted)
		}
	})
}
