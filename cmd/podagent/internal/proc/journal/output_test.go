package journal

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// small makes journals in memory that fill up soon.
func small(l *Limits) { l.Memory = Bounds{Process: 1 << 20, Replay: 1 << 16, Total: 16 << 20} }

// appendUntilFull appends to a stream until it is full.
func appendUntilFull(s *Stream) {
	for chunk := make([]byte, ChunkSize); s.Append(chunk) == len(chunk); {
	}
}

// Room may appear between a short Append and the wait for room.
func TestRoomThatComesBeforeTheWaitIsNotMissed(t *testing.T) {
	for what, makeRoom := range map[string]func(t *testing.T, o *Output, r *Reader){
		"a reader takes": func(t *testing.T, o *Output, r *Reader) {
			buf := make([]byte, ChunkSize)
			for next := int64(0); next < 1<<19; next += ChunkSize {
				if _, ok, err := o.nextEvent(r, buf); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		},
		"a reader leaves": func(_ *testing.T, o *Output, r *Reader) {
			o.dismiss(r)
			o.leave(r)
		},
		"a reader is replaced": func(t *testing.T, o *Output, r *Reader) {
			if _, err := o.Attach(ReadOptions{Name: r.name, At: [2]int64{o.State().Written[0], 0}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			o := newBudget(t, small, func(l *Limits) { l.Stall = never }).NewOutput(nil)
			r, err := o.Attach(ReadOptions{Name: "a"})
			if err != nil {
				t.Fatal(err)
			}
			s := o.Stream(0)
			appendUntilFull(s)
			if !o.State().Waiting[0] {
				t.Error("the writer is not counted as waiting")
			}
			makeRoom(t, o, r)
			s.AwaitRoom() // a missed signal would hang here
			if n := s.Append([]byte("more")); n != 4 || o.State().Waiting[0] {
				t.Errorf("%d bytes were added; the writer waits: %v", n, o.State().Waiting[0])
			}
		})
	}
}

func TestFillTakesTheHeadOfAnOutputAndNoMore(t *testing.T) {
	overEach(t, func(t *testing.T, newBudget makeBudget) {
		o, all := newBudget(t).NewOutput(nil), numbers(1, 2*headSize)
		pipe := bytes.NewReader(all[:1000])
		room, err := o.Stream(0).Fill(pipe.Read)
		if !room || !errors.Is(err, io.EOF) || o.State().Written[0] != 1000 {
			t.Errorf("%v, %v, %d bytes are there", room, err, o.State().Written[0])
		}
		pipe = bytes.NewReader(all[1000:])
		if room, err = o.Stream(0).Fill(pipe.Read); room || err != nil {
			t.Errorf("after more than a head: %v, %v", room, err)
		}
		write(o.Stream(0), all[o.State().Written[0]:])
		end(o)
		if r := finish(t, o); !bytes.Equal(r.streams[0].Bytes(), all) {
			t.Errorf("got %d bytes", r.streams[0].Len())
		}
	})
}

func TestObserverSeesAllInOrder(t *testing.T) {
	overEach(t, func(t *testing.T, newBudget makeBudget) {
		var seen []byte
		o := newBudget(t, func(l *Limits) { l.AttachGrace = 0 }).NewOutput(func(offset int64, b []byte) {
			if offset != int64(len(seen)) {
				t.Fatalf("offset %d after %d bytes", offset, len(seen))
			}
			seen = append(seen, b...)
		})
		all := numbers(1, full)
		if room, err := o.Stream(0).Fill(bytes.NewReader(all[:1000]).Read); !room || !errors.Is(err, io.EOF) {
			t.Fatal(room, err)
		}
		write(o.Stream(0), all[1000:])
		write(o.Stream(1), []byte("of the other stream it sees nothing"))
		if !bytes.Equal(seen, all) {
			t.Errorf("it saw %d bytes", len(seen))
		}
	})
}

func TestReaderWithoutANameTakesTheNearestSeat(t *testing.T) {
	o := &Output{lim: &Limits{Memory: Bounds{Replay: 1000}}, readers: map[*Reader]struct{}{}, seats: []seat{
		{at: [2]int64{100, 0}},
		{at: [2]int64{5000, 10}},
		{at: [2]int64{9000, 10}},
		{first: true},
	}}
	o.takeSeat(&Reader{at: [2]int64{4900, 10}})
	if len(o.seats) != 2 || o.seats[0].at[0] != 100 || o.seats[1].at[0] != 9000 {
		t.Errorf("got %+v", o.seats)
	}
	o.takeSeat(&Reader{at: [2]int64{9001, 10}})
	if len(o.seats) != 2 {
		t.Errorf("a reader ahead of all took a seat: %+v", o.seats)
	}
}
