package agent

import (
	"testing"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func TestInputContinuesAfterAnotherCallsInput(t *testing.T) {
	q := newStdinQueue()
	q.startAt(10)
	push := func(offset int64, data string) {
		t.Helper()
		if err := q.push(&pb.StdinChunk{Offset: offset, Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	push(10, "0123456789")
	if offset, data, _, _ := q.next(); offset != 10 || len(data) != 10 {
		t.Fatalf("took %q at %d", data, offset)
	}
	push(20, "abc")
	q.accepted(22) // the other call wrote two bytes more than were taken here
	if offset, data, _, _ := q.next(); offset != 22 || string(data) != "c" {
		t.Errorf("took %q at %d", data, offset)
	}
	q.accepted(30) // and then more than was received here at all
	push(30, "xyz")
	if offset, data, _, _ := q.next(); offset != 30 || string(data) != "xyz" {
		t.Errorf("took %q at %d", data, offset)
	}
	q.accepted(31) // an older position changes nothing
	if err := q.push(&pb.StdinChunk{Offset: 34, Data: []byte("x")}); err == nil {
		t.Error("a gap was accepted")
	}
}
