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

// readFrames does what the frames say until the link ends.
func (c *conn) readFrames() error {
	for {
		header, err := c.r.Peek(headerSize)
		if err != nil {
			return err
		}
		word, rest := binary.BigEndian.Uint32(header), binary.BigEndian.Uint32(header[4:])
		if word>>31 == 0 {
			err = c.readData(spdy.StreamId(word), spdy.DataFlags(rest>>24), int(rest&0xffffff))
		} else {
			err = c.readControl()
		}
		if err != nil {
			return err
		}
	}
}

// readData reads a data frame of length bytes, part by part as they come.
func (c *conn) readData(id spdy.StreamId, flags spdy.DataFlags, length int) error {
	if _, err := c.r.Discard(headerSize); err != nil {
		return err
	}
	for length > 0 {
		if _, err := c.r.Peek(1); err != nil {
			return unexpected(err)
		}
		part, err := c.r.Peek(min(length, c.r.Buffered()))
		if err != nil {
			return err
		}
		switch id {
		case dataStream:
			c.in.lend(part)
		case errorStream:
			c.end.addText(part)
		}
		if _, err := c.r.Discard(len(part)); err != nil {
			return err
		}
		length -= len(part)
	}
	if flags&spdy.DataFlagFin != 0 {
		c.end.finished(id)
	}
	return nil
}

// unexpected is the error of an end in the middle of a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readControl reads a control frame. Those that are not used are windows and
// settings, which port-forwarding does without.
func (c *conn) readControl() error {
	frame, err := c.framer.ReadFrame()
	if err != nil {
		return unexpected(err)
	}
	switch frame := frame.(type) {
	case *spdy.SynReplyFrame:
		if frame.StreamId == dataStream && !c.replied {
			c.replied = true
			close(c.opened)
		}
		if frame.CFHeader.Flags&spdy.ControlFlagFin != 0 {
			c.end.finished(frame.StreamId)
		}
	case *spdy.RstStreamFrame:
		c.end.reset(frame.StreamId)
	case *spdy.PingFrame:
		if frame.Id%2 == 0 { // a server's; odd ones are answers
			c.out.sendControl(frame)
		}
	case *spdy.GoAwayFrame:
		return errGoneAway
	case *spdy.SynStreamFrame:
		return fmt.Errorf("the node opened stream %d, which no port-forward has", frame.StreamId)
	}
	return nil
}
