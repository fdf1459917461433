package proc

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// pump moves one output of a process from its pipe to the journal. It has a goroutine of
// its own, once [Process.waitShort] has moved the first output.
type pump struct {
	source  *source // nil without such an output
	journal *journal.Stream
	chunks  *journal.Chunks
	// drainTime is [limits.drain].
	drainTime time.Duration
	// complete is closed when all of the output is in the journal.
	complete chan struct{}
	drain    drain

	mu sync.Mutex
	// exited is when the process ended; zero while it runs.
	exited time.Time
	// open says that a descendant held the pipe open when the output was
	// complete.
	open bool
}

// run fills the journal until the output ends, or the process has ended and its drain is
// over. It reads and discards everything later, so that a descendant which still writes
// does not get SIGPIPE, for as long as it lives.
func (p *pump) run() {
	if p.source == nil {
		p.finish(false)
		return
	}
	defer p.source.close()
	for !p.drained() {
		err := p.source.read(p.chunks, p.append)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			// A pipe has no error but its end.
			p.finish(false)
			return
		}
	}
	p.finish(!p.source.ended()) // its time may be over before a busy machine let the pump see the end
	p.source.file.SetReadDeadline(time.Time{})
	for {
		if err := p.source.read(p.chunks, func([]byte) {}); err != nil {
			return
		}
	}
}

// watch makes the runtime's poller wait for the output.
func (p *pump) watch() {
	if p.source != nil {
		p.source.watch()
	}
}

func (p *pump) finish(open bool) {
	p.mu.Lock()
	p.open = open
	p.mu.Unlock()
	close(p.complete)
}

// append adds b to the journal. If readers hold it up, it waits for them.
func (p *pump) append(b []byte) {
	for {
		b = b[p.journal.Append(b):]
		if len(b) == 0 {
			return
		}
		begun := time.Now()
		p.journal.AwaitRoom()
		p.drain.pause(p.exitedAt(), begun, time.Now())
	}
}

// readAvailable moves the bytes that wait in the pipe. more is false at the pipe's end. It
// does not wait for readers: room is false if the journal has no room left.
func (p *pump) readAvailable() (more, room bool) {
	room, err := p.journal.Fill(func(b []byte) (int, error) { return readRetry(p.source.fd, b) })
	return !room || errors.Is(err, unix.EAGAIN), room
}

// processEnded starts the drain.
func (p *pump) processEnded(now time.Time) {
	p.mu.Lock()
	p.exited = now
	p.mu.Unlock()
	if p.source != nil && !p.isComplete() {
		p.source.file.SetReadDeadline(now.Add(p.drainTime))
	}
}

func (p *pump) exitedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

func (p *pump) isComplete() bool {
	select {
	case <-p.complete:
		return true
	default:
		return false
	}
}

func (p *pump) wasOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// drained reports whether the process has ended and its drain is over. During the drain
// it lets the next read wait only for the rest of it.
func (p *pump) drained() bool {
	exited := p.exitedAt()
	if exited.IsZero() {
		return false
	}
	left, over := p.drain.left(exited, p.journal.Written(), p.drainTime, p.source.pending)
	if !over {
		p.source.file.SetReadDeadline(time.Now().Add(left))
	}
	return over
}

// drain decides when an output is complete although its pipe is still open. Only the
// pump uses it.
//
// The bytes that were in the pipe when the process ended are the process's own. The
// drain waits for them, however slow the readers are. After them its time runs only
// while no reader holds the pump up, so that the last command of a pipeline can finish;
// but a descendant that never stops writing may then add no more than drainBytes.
type drain struct {
	counted bool
	// owned is the offset up to which the bytes are the process's own.
	owned int64
	// paused is how long readers held the pump up since the process ended.
	paused time.Duration
}

// pause notes that readers held the pump up from begun to now.
func (d *drain) pause(exited, begun, now time.Time) {
	if exited.IsZero() {
		return
	}
	if begun.Before(exited) {
		begun = exited
	}
	d.paused += now.Sub(begun)
}

// left is how long the drain still runs.
func (d *drain) left(exited time.Time, end int64, limit time.Duration, pending func() int64) (time.Duration, bool) {
	if !d.counted {
		// The pump calls this between two reads, so that it holds no byte itself.
		d.counted = true
		d.owned = end + pending()
	}
	if end < d.owned && pending() > 0 { // others may have taken some of them
		return limit, false
	}
	elapsed := time.Since(exited)
	endless := elapsed >= limit && end >= d.owned+drainBytes
	left := limit - (elapsed - d.paused)
	return left, left <= 0 || endless
}
