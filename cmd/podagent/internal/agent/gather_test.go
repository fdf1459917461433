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
		write := func(size int) time.Duration {
			begun := time.Now()
			if n, err := c.Write(make([]byte, size)); n != size || err != nil {
				t.Errorf("wrote %d of %d bytes: %v", n, size, err)
			}
			return time.Since(begun)
		}
		if took := write(1); took != 0 {
			t.Errorf("without a start a write takes %v", took)
		}
		var ends []func()
		for range 100 {
			ends = append(ends, g.begin())
		}
		if took := write(1); took != gatherSteps*gatherStep {
			t.Errorf("beside 100 starts a small write takes %v", took)
		}
		if took := write(gatherBytes); took != 0 {
			t.Errorf("beside 100 starts a large write takes %v", took)
		}
		for _, end := range ends[3:] {
			end()
		}
		if took := write(1); took != 3*gatherStep {
			t.Errorf("beside three starts a small write takes %v", took)
		}
		time.AfterFunc(gatherStep*3/2, func() {
			for _, end := range ends[:3] {
				end()
			}
		})
		if took := write(1); took != 2*gatherStep {
			t.Errorf("after the last start a small write goes on for %v", took)
		}
	})
}
