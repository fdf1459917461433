package agent

import (
	"net"
	"sync"
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
		var mu sync.Mutex // timers begin and end commands, too
		var ends []func()
		begin := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			for range n {
				ends = append(ends, g.begin())
			}
		}
		leave := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			for ; len(ends) > n; ends = ends[1:] {
				ends[0]()
			}
		}
		end := func() {
			mu.Lock()
			defer mu.Unlock()
			ends[0]()
			ends = ends[1:]
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
		end()
		writes("beside a few starts", 1, 0)
		begin(100)
		end()
		for i := range time.Duration(gatherSteps) {
			time.AfterFunc(i*gatherStep+gatherStep/2, func() { end() })
		}
		writes("beside many starts", 1, gatherSteps*gatherStep)
		writes("beside many that make no progress", 1, 0)
		end()
		writes("beside many that make no more progress", 1, gatherIdle*gatherStep)
		end()
		writes("a large one beside many starts", gatherBytes, 0)
		leave(gatherLeast)
		time.AfterFunc(gatherStep/2, func() { begin(1); end() })
		writes("beside some starts", 1, gatherLeast/gatherShare*gatherStep)
		begin(100)
		end()
		time.AfterFunc(gatherStep/2, func() { end() })
		time.AfterFunc(gatherStep*3/2, func() { leave(0) })
		writes("beside starts that end meanwhile", 1, 2*gatherStep)
	})
}
