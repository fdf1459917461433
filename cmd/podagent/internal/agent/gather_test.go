package agent

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// nowhere is a connection whose writes take no time.
type nowhere struct{ net.Conn }

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

func TestSmallWritesPauseWhileCommandsAreStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gatherer{}
		c := &gatheringConn{nowhere{}, g}
		var ends []func()
		begin := func(n int) {
			for range n {
				ends = append(ends, g.begin())
			}
		}
		end := func(n int) {
			for range n {
				ends[0]()
				ends = ends[1:]
			}
		}
		writes := func(what string, size int, want time.Duration) {
			t.Helper()
			begun := time.Now()
			if n, err := c.Write(make([]byte, size)); n != size || err != nil {
				t.Errorf("%s: wrote %d of %d bytes: %v", what, n, size, err)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("%s: the write takes %v, want %v", what, took, want)
			}
		}
		begin(gatherLeast)
		end(1)
		writes("beside a few starts", 1, 0)
		begin(100)
		end(1)
		writes("beside many starts", 1, gatherSteps*gatherStep)
		writes("beside many that make no progress", 1, 0)
		end(1)
		writes("a large one beside many starts", gatherBytes, 0)
		end(len(ends) - gatherLeast)
		writes("beside some starts", 1, gatherLeast/gatherShare*gatherStep)
		begin(100)
		end(1)
		time.AfterFunc(gatherStep*3/2, func() { end(len(ends)) })
		writes("beside starts that end meanwhile", 1, 2*gatherStep)
	})
}
