package agentsandbox

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// onProcess is on for an operation on a process that runs, which is known by its pid in the sandbox, so that
// any gateway finds it. An operation that succeeds is answered by an empty message.
func (c *grpcCall) onProcess(pid int64, do func(c *podapi.Client, execID string) error) error {
	return c.on(gateway.Detail{ExecID: fmt.Sprintf("pid %d", pid)}, func(s *launcher.Sandbox) error {
		all, err := s.Processes(c.ctx)
		if err != nil {
			return err
		}
		for _, p := range all {
			if int64(p.PID) == pid && p.Status == nil {
				if err := do(s.Client, p.ID); err != nil {
					return err
				}
				return c.send(nil)
			}
		}
		return notRunning(pid)
	})
}

func notRunning(pid int64) error {
	return gateway.Fail(http.StatusNotFound, "not_exist", fmt.Sprintf("process %d not found", pid))
}

// writeStdin sends input to a process, or ends its input, and answers when the process has taken it.
func (c *grpcCall) writeStdin(message []byte) error {
	in, err := parseStdin(message)
	if err != nil {
		return err
	}
	return c.onProcess(in.process, func(client *podapi.Client, id string) error {
		to, err := c.senders.Take(c.ctx, client, id)
		if err != nil {
			return err
		}
		defer to.Leave()
		if in.eof {
			return to.Close()
		}
		if err = to.Send(in.input); errors.Is(err, stdin.ErrClosed) {
			return gateway.Fail(http.StatusConflict, "stdin_closed", err.Error())
		}
		return err
	})
}

// sendSignal sends a signal to a process, and to all that it started.
func (c *grpcCall) sendSignal(message []byte) error {
	in, err := parseSignal(message)
	if err != nil {
		return err
	}
	switch signal := syscall.Signal(in.signal); signal {
	case syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM:
		return c.onProcess(in.process, func(client *podapi.Client, id string) error {
			if err := client.Signal(c.ctx, id, signal); !errors.Is(err, os.ErrProcessDone) {
				return err
			}
			return notRunning(in.process)
		})
	}
	return faces.BadRequest("the signal must be SIGNAL_SIGINT, SIGNAL_SIGKILL or SIGNAL_SIGTERM")
}

// resize changes the size of a process's terminal.
func (c *grpcCall) resize(message []byte) error {
	in, err := parseResize(message)
	if err == nil {
		err = in.size.check()
	}
	if err != nil {
		return err
	}
	return c.onProcess(in.process, func(client *podapi.Client, id string) error {
		p, err := client.Attach(c.ctx, id, podapi.AttachOptions{NoOutput: true})
		if err != nil {
			return err
		}
		if !p.HasTerminal() {
			err = gateway.Fail(http.StatusConflict, "no_terminal", "the process has no terminal")
		} else {
			err = p.Resize(podapi.TerminalSize{Rows: int(in.size.rows), Columns: int(in.size.cols)})
		}
		if left := p.Detach(); !errors.Is(left, os.ErrProcessDone) { // the agent has done then what came before
			err = errors.Join(err, left)
		}
		return err
	})
}
