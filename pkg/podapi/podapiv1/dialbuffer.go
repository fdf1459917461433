package podapiv1

import "sync"

// DialChunk is the size in bytes of the largest buffers for the data of Dial and Carry: larger
// ones are not faster.
const DialChunk = 64 << 10

// dialBuffers are free buffers, by size. What waits in a small window must not hold a large one.
var dialBuffers = [...]dialPool{{size: 8 << 10}, {size: 16 << 10}, {size: 32 << 10}, {size: DialChunk}}

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
