package tunnel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	return q
}

func buffer(text string) []byte { return append(pb.NewDialBuffer(pb.DialChunk), text...) }

func TestQueueJoinsSmallMessages(t *testing.T) {
	q := newQueue()
	var want []byte
	for i := range 1000 {
		message := fmt.Sprintf("message %d, and so on for a hundred bytes: %60d", i, i)
		q.push(buffer(message))
		want = append(want, message...)
	}
	if n, least := len(q.chunks), (len(want)-1)/pb.DialChunk+1; n != least {
		t.Errorf("%d bytes take %d buffers, want %d", len(want), n, least)
	}
	q.fail(io.EOF)
	var got []byte
	for {
		data, err := q.pop()
		if err == io.EOF {
			break
		}
		got = append(got, data...)
	}
	if !bytes.Equal(got, want) {
		t.Error("the output differs from the input")
	}
}

func TestQueueEndsAfterWhatItHas(t *testing.T) {
	q := newQueue()
	q.push(buffer("a"))
	q.push(nil) // this is not an end
	q.end()
	q.fail(ErrClosed)
	q.fail(io.EOF) // too late
	if data, err := q.pop(); string(data) != "a" || err != nil {
		t.Errorf("first %q, %v", data, err)
	}
	if data, err := q.pop(); data != nil || err != nil {
		t.Errorf("then %q, %v", data, err)
	}
	if _, err := q.pop(); !errors.Is(err, ErrClosed) {
		t.Errorf("at last %v", err)
	}
}

func TestQueueDropsWhatIsNotWanted(t *testing.T) {
	q := newQueue()
	q.push(buffer("a"))
	q.drop()
	q.push(buffer("b"))
	q.fail(io.EOF)
	if data, err := q.pop(); data != nil || err != io.EOF {
		t.Errorf("got %q, %v", data, err)
	}
}
