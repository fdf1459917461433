package mcpserver

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// progress sends the output of a running command to a client. It never makes the
// command wait: if output comes too fast, it leaves some out, since the result has
// all of it.
type progress struct {
	ctx     context.Context
	session *mcp.ServerSession
	token   any

	mu    sync.Mutex
	text  []byte
	total int64
	done  chan struct{}
	ended sync.WaitGroup
}

func newProgress(ctx context.Context, session *mcp.ServerSession, token any) *progress {
	p := &progress{ctx: ctx, session: session, token: token, done: make(chan struct{})}
	p.ended.Go(p.run)
	return p
}

// Write takes output. It never fails.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += int64(len(b))
	p.text = append(p.text, b...)
	if over := len(p.text) - maxProgress; over > 0 {
		p.text = append(p.text[:0], p.text[over:]...)
	}
	return len(b), nil
}

func (p *progress) run() {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.tell()
		case <-p.done:
			return
		}
	}
}

// tell sends the output since the last message, and the total number of bytes.
func (p *progress) tell() {
	p.mu.Lock()
	text, total := strings.ToValidUTF8(string(p.text), "\ufffd"), p.total
	p.text = p.text[:0]
	p.mu.Unlock()
	if text != "" {
		params := &mcp.ProgressNotificationParams{ProgressToken: p.token, Message: text, Progress: float64(total)}
		_ = p.session.NotifyProgress(p.ctx, params) // the result comes in any case
	}
}

// end stops the messages: a client must not get progress of a call that has ended.
func (p *progress) end() {
	close(p.done)
	p.ended.Wait()
}
