package journal

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// keptFrom returns what the journal of a stream still has from off on.
func keptFrom(t *testing.T, s *Stream, off int64) []byte {
	t.Helper()
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	var all []byte
	for buf := make([]byte, ChunkSize); off < s.journal.end; {
		n := s.read(buf, off)
		if n == 0 {
			t.Fatalf("there is nothing at %d", off)
		}
		all = append(all, buf[:n]...)
		off += n
	}
	return all
}

// model is the reference for a stream: everything that was added to it.
type model struct {
	*Stream
	all []byte
}

func (m *model) add(r *rand.Rand, n int) {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	write(m.Stream, b)
	m.all = append(m.all, b...)
}

func (m *model) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	j := &m.journal
	if j.end != int64(len(m.all)) {
		t.Fatalf("the journal ends at %d of %d", j.end, len(m.all))
	}
	for _, off := range []int64{j.start, j.start + r.Int64N(j.end-j.start+1), j.end} {
		if !bytes.Equal(keptFrom(t, m.Stream, off), m.all[off:]) {
			t.Fatalf("differs from %d on", off)
		}
	}
}

func TestJournalKeepsTheNewest(t *testing.T) {
	overEach(t, func(t *testing.T, newBudget makeBudget) {
		o := unread(newBudget(t, oneJournal))
		r := rand.New(rand.NewPCG(1, 2))
		streams := []*model{{Stream: o.streams[0]}, {Stream: o.streams[1]}}
		for range 120 {
			streams[r.IntN(2)].add(r, 1<<r.IntN(18)+r.IntN(100))
			streams[r.IntN(2)].check(t, r)
		}
		kept := streams[0].journal.held() + streams[1].journal.held()
		if kept > memorySize || kept < memorySize*3/4 {
			t.Errorf("%d bytes are kept", kept)
		}
		o.Seal()
		o.Forget()
		if n := o.takes; n != [2]int{} {
			t.Errorf("%d are still taken", n)
		}
	})
}

// TestShortOutputsTakeLittle checks commands that print a line, and commands that
// print a page.
func TestShortOutputsTakeLittle(t *testing.T) {
	overEach(t, func(t *testing.T, newBudget makeBudget) {
		for size, most := range map[int]int{0: 0, 10: firstSize, 4000: 8 << 10, 50_000: 64 << 10} {
			o := unread(newBudget(t))
			if size > 0 {
				write(o.streams[0], make([]byte, size))
			}
			if n := o.takes; n[inMemory] > most || n[onDisk] > 0 {
				t.Errorf("%d bytes take %d", size, n)
			}
		}
	})
}

func TestShortOutputsGoToTheDiskWhenMemoryIsShort(t *testing.T) {
	b := newDiskBudget(t)
	line := []byte("a line\n")
	b.accounts[inMemory].chargeAnyway(headTotal)
	o := unread(b)
	write(o.streams[0], line)
	if n := o.takes; n != [2]int{onDisk: slotMin} {
		t.Errorf("a line takes %d", n)
	}
	if got := keptFrom(t, o.streams[0], 0); !bytes.Equal(got, line) {
		t.Errorf("got %q", got)
	}
}
