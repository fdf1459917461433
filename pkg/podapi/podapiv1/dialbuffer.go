package podapiv1

import "sync"

// The sizes in bytes of buffers for the data of Dial and Carry. What fills a window at once fits into a
// buffer of the same size, here and in package wire, and what waits in a small window holds no larger one.
const (
	// LeastDialWindow is what each connection may have under way, whatever others do: as little as still
	// moves bytes.
	LeastDialWindow = 8 << 10
	// DialFrame is a frame of HTTP/2, of which large messages are made.
	DialFrame = 16 << 10
	// FirstDialWindow is what a connection may have under way at first: a request, and enough to grow from.
	FirstDialWindow = 32 << 10
	// DialChunk is the most: larger buffers are not faster.
	DialChunk = 64 << 10
)

// dialBuffers are free buffers, by size.
var dialBuffers = [...]dialPool{{size: LeastDialWindow}, {size: DialFrame}, {size: FirstDialWindow}, {size: DialChunk}}

type dialPool struct {
	size  int
	spare sync.Pool // of *[]byte
}

// NewDialBuffer returns an empty buffer with room for so many bytes.
func NewDialBuffer(size int) []byte {
	for i := range dialBuffers {
		if p := &dialBuffers[i]; size <= p.size {
			if spare, ok := p.spare.Get().(*[]byte); ok {
				return (*spare)[:0]
			}
			return make([]byte, 0, p.size)
		}
	}
	return make([]byte, 0, size)
}

// FreeDialBuffer takes back a buffer that is no longer used, if NewDialBuffer made it.
func FreeDialBuffer(b []byte) {
	for i := range dialBuffers {
		if p := &dialBuffers[i]; cap(b) == p.size {
			p.spare.Put(&b)
			return
		}
	}
}
