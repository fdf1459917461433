package portforward

import "sync"

// bufferPool has buffers of bufferSize for the connections of a dialer. A connection
// takes one when bytes come or are to leave, and gives it back when they have passed.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) get() []byte {
	if buf, ok := p.pool.Get().(*[bufferSize]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferSize)
}

// put takes a buffer back. Any other slice is left to the collector.
func (p *bufferPool) put(buf []byte) {
	if cap(buf) == bufferSize {
		p.pool.Put((*[bufferSize]byte)(buf[:bufferSize]))
	}
}
