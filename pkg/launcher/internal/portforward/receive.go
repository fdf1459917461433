package portforward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/moby/spdystream/spdy"
)

// errGoneAway is the server's announcement that it closes the link.
var errGoneAway = errors.New("the node went away")

// readFrames handles frames until the link ends.
func (c *conn) readFrames() error {
	var h header
	for {
		if _, err := io.ReadFull(c.link, h[:]); err != nil {
			return err
		}
		read := c.readData
		if h.isControl() {
			read = c.readControl
		}
		if err := read(&h); err != nil {
			return unexpected(err)
		}
	}
}

// unexpected is the error of an end in the middle of a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readData reads a data frame in parts, as they come. It has a buffer only meanwhile, so
// that a connection whose pod is silent holds none.
func (c *conn) readData(h *header) error {
	if h.length() > 0 {
		buf := c.buffers.get()
		defer c.buffers.put(buf)
		if err := c.readPayload(h, buf); err != nil {
			return err
		}
	}
	if h.isLast() {
		c.end.finished(h.stream())
	}
	return nil
}

func (c *conn) readPayload(h *header, buf []byte) error {
	for left := h.length(); left > 0; {
		n, err := c.link.Read(buf[:min(left, len(buf))])
		switch h.stream() {
		case dataStream:
			c.in.lend(buf[:n])
		case errorStream:
			c.end.addText(buf[:n])
		}
		if left -= n; left > 0 && err != nil {
			return err
		}
	}
	return nil
}

// readControl reads a control frame. It ignores windows, settings and headers, which
// port-forwarding does without.
func (c *conn) readControl(h *header) error {
	number, err := c.readNumber(h)
	if err != nil {
		return err
	}
	switch h.kind() {
	case spdy.TypeSynReply:
		c.answered(number)
		if h.isLast() {
			c.end.finished(number)
		}
	case spdy.TypeRstStream:
		c.end.reset(number)
	case spdy.TypePing:
		if number%2 == 0 { // a server's; odd ones are answers
			c.out.sendControl(pingFrame(number))
		}
	case spdy.TypeGoAway:
		return errGoneAway
	case spdy.TypeSynStream:
		return fmt.Errorf("the node opened stream %d, which no port-forward has", number)
	}
	return nil
}

// readNumber reads the payload of a control frame, and returns the number that it
// begins with: that of a stream or a ping.
func (c *conn) readNumber(h *header) (uint32, error) {
	var number [numberSize]byte
	rest := h.length() - numberSize
	if rest < 0 || rest > maxControlFrame {
		return 0, fmt.Errorf("the node sent a control frame of kind %d with %d bytes", h.kind(), h.length())
	}
	if _, err := io.ReadFull(c.link, number[:]); err != nil {
		return 0, err
	}
	_, err := io.CopyN(io.Discard, c.link, int64(rest))
	return binary.BigEndian.Uint32(number[:]), err
}

// answered notes that the node has taken a stream.
func (c *conn) answered(stream uint32) {
	if stream == dataStream && !c.replied {
		c.replied = true
		close(c.opened)
	}
}
