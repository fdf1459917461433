package wire

import (
	"bytes"
	"testing"
)

func TestBufferPoolHandsOutTheLengthThatWasAsked(t *testing.T) {
	pool := newBufferPool(10, 100)
	for length, capacity := range map[int]int{0: 10, 1: 10, 10: 10, 11: 100, 100: 100, 101: 101} {
		if b := *pool.Get(length); len(b) != length || cap(b) != capacity {
			t.Errorf("Get(%d) has length %d and capacity %d, want %d", length, len(b), cap(b), capacity)
		}
	}
}

func TestBufferPoolReusesBuffers(t *testing.T) {
	pool := newBufferPool(10, 100)
	if again := reuse(pool, 60, 0); again == nil {
		t.Error("no buffer is reused")
	} else if len(*again) != 70 || !bytes.Equal((*again)[:60], bytes.Repeat([]byte{7}, 60)) {
		t.Errorf("a buffer of %d that was cut to nothing came back as %v", 60, *again)
	}
}

func TestBufferPoolKeepsNoOtherSizes(t *testing.T) {
	pool := newBufferPool(10, 100)
	if again := reuse(pool, 200, 0); again != nil {
		t.Error("a buffer of another size was kept")
	}
	odd := bytes.Repeat([]byte{7}, 50)
	for range reuseTries {
		pool.Put(&odd)
		if got := pool.Get(50); cap(*got) == cap(odd) || cap(*got) != 100 {
			t.Fatalf("a buffer of capacity %d was kept as one of 100", cap(*got))
		}
	}
}

// reuseTries is how often reuse tries until it gives up: the collector and the race
// detector make a pool lose some buffers.
const reuseTries = 1000

// reuse puts buffers back, cut to length, until Get returns one of them again.
func reuse(pool bufferPool, size, length int) *[]byte {
	for range reuseTries {
		b := pool.Get(size)
		for i := range *b {
			(*b)[i] = 7
		}
		*b = (*b)[:length]
		pool.Put(b)
		if again := pool.Get(size + 10); again == b {
			return again
		}
	}
	return nil
}
