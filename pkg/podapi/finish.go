package podapi

import (
	"context"
	"errors"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// fail ends the run because its output cannot be delivered.
func (c *Cmd) fail(err error) {
	if c.life.Err() != nil {
		return // it was given up, and its pipes closed
	}
	c.failing.Do(func() {
		c.failed = err
		c.part()
	})
}

// part ends the run within KillGrace: a process that was started for it is
// killed, unless the caller has detached; another one is left running.
func (c *Cmd) part() {
	c.endWith(func(wanted *control) {
		if c.attach == nil && !wanted.detach {
			wanted.kill = true
		} else {
			wanted.detach = true
		}
	})
}

// endWith has the run end by what is wanted now, and gives it up when that takes
// longer than KillGrace. It reports whether there is a connection.
func (c *Cmd) endWith(change func(*control)) bool {
	timer := time.AfterFunc(KillGrace, c.abandon)
	context.AfterFunc(c.life, func() { timer.Stop() })
	defer c.hurry()
	return c.control.want(change)
}

// abandon ends the run, whatever becomes of the process.
func (c *Cmd) abandon() {
	c.giveUp()
	c.closePipes() // a pipe that nobody reads holds the run up
}

// finish lets Wait return.
func (c *Cmd) finish() {
	c.unwatch()
	c.giveUp()
	if c.stdin != nil {
		c.stdin.close()
	}
	c.closePipes()
	close(c.done)
}

func (c *Cmd) closePipes() {
	for _, p := range c.pipes {
		p.Close()
	}
}

// conclude notes how the run ended: by a final message, or by err.
func (c *Cmd) conclude(final *pb.ExecResponse, err error) {
	exit := final.GetExit()
	if finishErr := c.output.finish(exit); err == nil {
		err = finishErr
	}
	if exit != nil && err == nil {
		status := exitStatusFromProto(exit)
		status.Omitted = c.output.omitted
		c.status = &status
		return
	}
	if err == nil || c.control.detaching() && !errors.Is(err, ErrAgentLost) {
		c.err = ErrDetached
		return
	}
	if c.err = err; errors.Is(err, ErrAgentLost) {
		c.status = &ExitStatus{
			Reason: AgentLost, Code: -1, Omitted: c.output.omitted,
			Stdout: c.output.next[0], Stderr: c.output.next[1],
		}
	}
}
