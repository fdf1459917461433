package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"
)

// hung is how long a test waits for something that must happen. Reaching it is a
// failure.
const hung = 2 * time.Minute

// newBudget returns a budget that keeps journals in memory, with adapted limits.
func newBudget(t testing.TB, adapt ...func(*Limits)) *Budget {
	t.Helper()
	lim := DefaultLimits()
	for _, f := range adapt {
		f(&lim)
	}
	return NewBudget(&lim, slog.New(slog.DiscardHandler))
}

// newDiskBudget returns a budget that keeps journals on disk, even if the directory
// is in memory.
func newDiskBudget(t testing.TB, adapt ...func(*Limits)) *Budget {
	t.Helper()
	b := newBudget(t, adapt...)
	if err := b.OpenAny(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return b
}

type makeBudget func(testing.TB, ...func(*Limits)) *Budget

// overEach runs a test with a budget that keeps journals in memory, and with one
// that keeps them on disk.
func overEach(t *testing.T, test func(*testing.T, makeBudget)) {
	t.Run("memory", func(t *testing.T) { test(t, newBudget) })
	t.Run("disk", func(t *testing.T) { test(t, newDiskBudget) })
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hung); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// unread returns an output without a reader, which expects none.
func unread(b *Budget) *Output {
	o := b.NewOutput(nil)
	o.seats = nil
	return o
}

// write adds all of b to a stream, as a process's pump does.
func write(s *Stream, b []byte) {
	for b = b[s.Append(b):]; len(b) > 0; b = b[s.Append(b):] {
		s.AwaitRoom()
	}
}

// end seals an output and finishes it.
func end(o *Output) {
	o.Seal()
	o.Finish()
}

// numbers returns size bytes of decimal numbers from first on, one per line.
func numbers(first, size int) []byte {
	var b []byte
	for i := first; len(b) < size; i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return b[:size]
}

type result struct {
	streams [2]bytes.Buffer
	omitted [2]int64
}

// collect reads an output to its end from the given offsets, and checks that the
// events are contiguous.
func collect(ctx context.Context, o *Output, at [2]int64) (*result, error) {
	reader, err := o.Attach(ReadOptions{At: at})
	if err != nil {
		return nil, err
	}
	return drain(ctx, reader, at)
}

func drain(ctx context.Context, reader *Reader, next [2]int64) (*result, error) {
	r, finished := &result{}, false
	for ev, err := range reader.Events(ctx) {
		if err != nil {
			return r, err
		}
		if finished {
			return r, errors.New("an event followed the last one")
		}
		if finished = ev.Finished; finished {
			continue
		}
		if ev.Offset != next[ev.Stream]+ev.Omitted {
			return r, errors.New("an event does not follow the one before")
		}
		next[ev.Stream] = ev.Offset + int64(len(ev.Data))
		r.omitted[ev.Stream] += ev.Omitted
		r.streams[ev.Stream].Write(ev.Data)
	}
	if !finished {
		return r, io.ErrUnexpectedEOF
	}
	return r, nil
}

func finish(t testing.TB, o *Output) *result {
	t.Helper()
	r, err := collect(testContext(t), o, [2]int64{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// takes returns how much space the journals of an output take, by medium.
func takes(o *Output) [2]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takes
}

func used(b *Budget) [2]int {
	memory, disk := b.Used()
	return [2]int{memory, disk}
}

// logged is a log that a test can read while others write to it.
type logged struct {
	*slog.Logger
	mu   sync.Mutex
	text bytes.Buffer
}

func newLog() *logged {
	l := &logged{}
	l.Logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// never is a grace that does not end.
const never = time.Duration(math.MaxInt64 / 4)
