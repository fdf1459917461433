package gateway

import (
	"context"
	"errors"
	"net/http"
	"syscall"

	"github.com/podagent/podagent/pkg/podapi"
)

// A gateway that ends leaves commands running, and says how to go on with them: no caller can tell
// its end from a break of the network, which must not end what is worth more than the connection.

// gatewayEnds reports whether the call was ended because the gateway is over.
func (c *rawCall) gatewayEnds() bool { return errors.Is(context.Cause(c), errClosing) }

// awaitHere is await for a call that can go on at another gateway: once this one is closing, it
// leaves the process, which left says.
func (c *rawCall) awaitHere(p *podapi.Process) (status *podapi.ExitStatus, left bool, err error) {
	defer context.AfterFunc(c.streams.closing, func() { _ = p.Detach() })()
	status, err = c.await(p)
	left = errors.Is(err, podapi.ErrDetached) && c.streams.closing.Err() != nil
	return status, left, err
}

// reconnect ends the lines of a process that was left. What came of a rune whose rest did not comes
// again. A command that ends with its caller does so if nobody can be told. input says that the call
// sent input.
func (l *outputLines) reconnect(p *podapi.Process, input bool) error {
	line := OutputLine{Type: "reconnect", ExecID: p.ID()}
	for _, o := range l.outputs {
		at := o.offset
		if o.name == "stdout" {
			line.StdoutOffset = &at
		} else {
			line.StderrOffset = &at
		}
	}
	if input {
		taken, _ := p.StdinTaken(l.call, -1)
		line.StdinOffset = &taken
	}
	err := l.call.line(line, true)
	if err != nil && l.call.ends {
		l.call.abandon(p.ID())
	}
	return err
}

// abandon ends a process that nobody will know of.
func (c *rawCall) abandon(id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c), farewell)
	defer cancel()
	_ = c.sandbox.Signal(ctx, id, syscall.SIGKILL)
}

// leftRunning says that a command runs on without its caller, because the gateway is over.
type leftRunning struct{ id string }

func (e *leftRunning) Error() string {
	return "this gateway ends, and the command runs on: read its output at another one, or repeat a request that has an Idempotency-Key"
}

func (e *leftRunning) problem() *Problem {
	p := newProblem(http.StatusServiceUnavailable, "unavailable", e.Error())
	p.ExecID = e.id
	return p
}
