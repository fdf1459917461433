package portforward

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"

	"github.com/moby/spdystream/spdy"
	corev1 "k8s.io/api/core/v1"
)

// The streams. A client's have odd numbers.
const (
	errorStream = 1
	dataStream  = 3
)

// headerSize is the length of a frame's header. That of a data frame has the stream
// in four bytes, the flags in one, and the payload's length in three. That of a
// control frame has the version and the kind in the first four.
const headerSize = 8

// controlBit is set in the first four bytes of a control frame.
const controlBit = 1 << 31

// header is the header of a frame that came.
type header [headerSize]byte

func (h *header) word() uint32    { return binary.BigEndian.Uint32(h[:]) }
func (h *header) isControl() bool { return h.word()&controlBit != 0 }
func (h *header) stream() uint32  { return h.word() }
func (h *header) kind() spdy.ControlFrameType {
	return spdy.ControlFrameType(h.word() & 0xffff)
}
func (h *header) isLast() bool { return h[4]&byte(spdy.DataFlagFin) != 0 } // of its stream
func (h *header) length() int  { return int(binary.BigEndian.Uint32(h[4:]) & 0xffffff) }

// putDataHeader makes frame a data frame, whose header is blank.
func putDataHeader(frame []byte) {
	binary.BigEndian.PutUint32(frame, dataStream)
	binary.BigEndian.PutUint32(frame[4:], uint32(len(frame)-headerSize))
}

// lastFrame ends a stream in our direction, without data.
func lastFrame(stream uint32) []byte {
	frame := binary.BigEndian.AppendUint32(nil, stream)
	return append(frame, byte(spdy.DataFlagFin), 0, 0, 0)
}

// pingFrame is a ping, or the answer to one, which is the same.
func pingFrame(id uint32) []byte { return controlFrame(spdy.TypePing, id) }

// goAwayFrame says that we close the link, and that all is well.
func goAwayFrame() []byte {
	return controlFrame(spdy.TypeGoAway, 0, uint32(spdy.GoAwayOK))
}

// controlFrame is a control frame whose payload is numbers of four bytes.
func controlFrame(kind spdy.ControlFrameType, payload ...uint32) []byte {
	frame := binary.BigEndian.AppendUint32(nil, controlBit|spdy.Version<<16|uint32(kind))
	frame = binary.BigEndian.AppendUint32(frame, uint32(4*len(payload)))
	for _, number := range payload {
		frame = binary.BigEndian.AppendUint32(frame, number)
	}
	return frame
}

// openingFrames open both streams. The compressor for their headers takes some 800 KiB
// of memory, and is dropped when this returns: later frames have no headers, and those
// that the node sends do not matter.
func openingFrames(port int) ([]byte, error) {
	var frames bytes.Buffer
	framer, err := spdy.NewFramer(&frames, nil)
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		id   spdy.StreamId
		kind string
	}{{errorStream, corev1.StreamTypeError}, {dataStream, corev1.StreamTypeData}} {
		headers := http.Header{}
		headers.Set(corev1.StreamType, s.kind)
		headers.Set(corev1.PortHeader, strconv.Itoa(port))
		headers.Set(corev1.PortForwardRequestIDHeader, "0") // makes them a pair
		if err := framer.WriteFrame(&spdy.SynStreamFrame{StreamId: s.id, Headers: headers}); err != nil {
			return nil, fmt.Errorf("cannot open stream %d: %w", s.id, err)
		}
	}
	return frames.Bytes(), nil
}
