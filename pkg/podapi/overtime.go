package podapi

import (
	"context"
	"fmt"
	"time"

	"github.com/podagent/podagent/internal/delay"
)

// The agent enforces a command's timeout, and the client does not rely on it. An agent
// that does not keep to the timeout, or does not say so, costs its caller no more than
// grace. That is long enough for an agent that ends a fork bomb on a busy machine, and for
// one whose connection is away.

// grace is how long after a command's timeout the agent may say how it ended.
func (p *Process) grace() time.Duration { return max(p.patience(), timeoutGrace) }

// startTime bounds how long the agent may take to answer the start of a command that has
// a timeout: it may have many to start.
func (p *Process) startTime() (context.Context, context.CancelFunc) {
	if p.timeout <= 0 || p.timeout > maxNumber {
		return context.WithCancel(p.life)
	}
	return context.WithTimeout(p.life, p.timeout+p.grace())
}

// limitTime gives the run of a command up if the agent does not end it in time.
func (p *Process) limitTime() {
	if p.timeout > 0 {
		go p.awaitTimeout()
	}
}

func (p *Process) awaitTimeout() {
	delay.For(p.waiting, p.timeout)
	delay.For(p.waiting, p.grace())
	for p.waiting.Err() == nil && p.output.waiting.Load() {
		delay.For(p.waiting, timeoutGrace) // the caller's writer is slow, which is not the agent's doing
	}
	if p.waiting.Err() == nil {
		p.giveUpOverdue(fmt.Sprintf("it has not ended a command %v after its timeout of %v", p.grace(), p.timeout))
	}
}

// giveUpOverdue ends the run because the agent takes too long, and returns why. The
// process is to be killed, but nobody waits for that.
func (p *Process) giveUpOverdue(what string) error {
	err := fmt.Errorf("%w: %s", ErrUnavailable, what)
	p.overdue.Store(&err)
	if first, _ := p.control.wantKill(); first {
		go p.insist()
	}
	p.giveUp()
	p.closePipes()
	return err
}
