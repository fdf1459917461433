package halves_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/podagent/podagent/internal/halves"
)

// hides is a connection of which only the methods of net.Conn are seen.
type hides struct{ net.Conn }

// pair returns the two ends of a connection.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestTheOtherSideSeesWhatEndsAConnection(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(net.Conn)
		want    error
		answers bool
	}{
		"one direction":               {func(c net.Conn) { _ = halves.CloseWrite(c) }, io.EOF, true},
		"one that cannot, altogether": {func(c net.Conn) { _ = halves.CloseWrite(hides{c}) }, io.EOF, false},
		"a reset":                     {halves.Reset, syscall.ECONNRESET, false},
		"one that cannot be reset":    {func(c net.Conn) { halves.Reset(hides{c}) }, io.EOF, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			c.end(a)
			if _, err := b.Read(make([]byte, 1)); !errors.Is(err, c.want) {
				t.Errorf("the other side gets %v, want %v", err, c.want)
			}
			if !c.answers {
				return
			}
			if _, err := b.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Read(make([]byte, 1)); err != nil {
				t.Errorf("an answer: %v", err)
			}
		})
	}
}
