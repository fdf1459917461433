package portforward

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/moby/spdystream/spdy"
)

// Whatever the other side sends, a read ends with its bytes, and returns no more
// data and text than were sent.
func FuzzFrames(f *testing.F) {
	f.Add(serverFrames(f, &spdy.SynReplyFrame{StreamId: dataStream}, data(dataStream, 0, "hello"), data(dataStream, spdy.DataFlagFin, "")))
	f.Add(serverFrames(f, data(errorStream, spdy.DataFlagFin, "no such pod"), &spdy.RstStreamFrame{StreamId: dataStream, Status: spdy.Cancel}))
	f.Add(serverFrames(f, &spdy.PingFrame{Id: 2}, &spdy.PingFrame{Id: 1}, &spdy.GoAwayFrame{}))
	f.Add(serverFrames(f, &spdy.SettingsFrame{}, &spdy.WindowUpdateFrame{StreamId: 3, DeltaWindowSize: 1}))
	f.Add(serverFrames(f, &spdy.SynStreamFrame{StreamId: 2}))
	f.Add([]byte{0x80, 3, 0, 1, 0, 0, 0, 1, 0})
	f.Add([]byte{0, 0, 0, 3, 0, 0xff, 0xff, 0xff, 'x'})
	f.Fuzz(func(t *testing.T, input []byte) {
		client, server := net.Pipe()
		defer func() { _ = server.Close() }()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		l := &link{struct {
			io.Reader
			io.WriteCloser
		}{bytes.NewReader(input), client}, client}
		c := newConn(l, "fuzz", new(bufferPool))
		go c.serve()
		go c.send()
		got, err := io.ReadAll(c)
		var remote *RemoteError
		if len(got) > len(input) || errors.As(err, &remote) && len(remote.Text) > len(input) {
			t.Errorf("%d bytes came of %d, %v", len(got), len(input), err)
		}
		_ = c.Close()
	})
}

func data(id spdy.StreamId, flags spdy.DataFlags, payload string) *spdy.DataFrame {
	return &spdy.DataFrame{StreamId: id, Flags: flags, Data: []byte(payload)}
}

func serverFrames(tb testing.TB, frames ...spdy.Frame) []byte {
	tb.Helper()
	var buf bytes.Buffer
	framer, err := spdy.NewFramer(&buf, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for _, frame := range frames {
		if err := framer.WriteFrame(frame); err != nil {
			tb.Fatal(err)
		}
	}
	return buf.Bytes()
}
