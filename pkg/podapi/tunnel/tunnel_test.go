package tunnel

import (
	"errors"
	"io"
	"testing"
)

// sentFrames is a stream to which nothing comes.
type sentFrames []Frame

func (s *sentFrames) Send(f Frame) error {
	*s = append(*s, f)
	return nil
}

func (*sentFrames) Recv() (Frame, error) { return Frame{}, io.EOF }

// broken is a destination that is gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (broken) CloseWrite() error         { return nil }

// The other side may wait for the room of what a destination did not take, before it takes anything itself.
func TestBytesThatCannotBeWrittenTakeNoRoom(t *testing.T) {
	var sent sentFrames
	tunnel := New(&sent, new(Budget))
	defer tunnel.Stop()
	all := make([]byte, tunnel.Limit())
	if err := tunnel.window.receive(len(all)); err != nil {
		t.Fatal(err)
	}
	tunnel.queue.push(all)
	if err := tunnel.Deliver(broken{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("delivering: %v", err)
	}
	if len(sent) != 1 || sent[0].Limit <= int64(len(all)) {
		t.Errorf("the other side hears %+v", sent)
	}
}
