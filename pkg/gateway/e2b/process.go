package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// processes serve process.Process: the commands and terminals of a sandbox. A process is a command of
// podapi's, which outlives connections; what others know of it is its pid in the sandbox, or its tag.
type processes struct {
	senders stdin.Senders
	ids     execIDs // of those that input was sent to
	// standIns are the commands that are tried in place of one that does not exist.
	standIns map[string][]string
}

// newProcesses has the shell of many images in place of the only one that SDKs know.
func newProcesses() *processes {
	return &processes{standIns: map[string][]string{"/bin/bash": {"bash", "sh"}}}
}

// addTo adds the methods of process.Process.
func (p *processes) addTo(mux *http.ServeMux) {
	const service = "/process.Process/"
	unary(mux, service+"List", p.list)
	unary(mux, service+"Update", p.update)
	unary(mux, service+"SendInput", p.sendInput)
	unary(mux, service+"SendSignal", p.sendSignal)
	unary(mux, service+"CloseStdin", p.closeStdin)
	serverStream(mux, service+"Start", p.start)
	serverStream(mux, service+"Connect", p.connect)
	clientStream(mux, service+"StreamInput", p.streamInput)
}

// onProcesses does a task with the processes of the sandbox. Its error is how the call is answered.
func (t task) onProcesses(ctx context.Context, do func(*podapi.Client) error) error {
	c := callOf(ctx)
	t.user = userOf(requestHeader(ctx))
	return c.connectFailure(ctx, c.do(ctx, t, func(s *launcher.Sandbox) error { return do(s.Client) }))
}

// The messages of process.Process. Of the pointers that are named as one of several, one is set.

type processConfig struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args,omitempty"`
	Envs map[string]string `json:"envs,omitempty"`
	Cwd  string            `json:"cwd,omitempty"`
}

type terminal struct {
	Size *struct {
		Cols int `json:"cols"`
		Rows int `json:"rows"`
	} `json:"size"`
}

// selector names a process by one of these.
type selector struct {
	PID *int    `json:"pid"`
	Tag *string `json:"tag"`
}

type listProcessesRequest struct{}

type listProcessesResponse struct {
	Processes []processInfo `json:"processes"`
}

type processInfo struct {
	Config processConfig `json:"config"`
	PID    int           `json:"pid"`
	Tag    string        `json:"tag,omitempty"`
}

type startRequest struct {
	Process *processConfig `json:"process"`
	PTY     *terminal      `json:"pty"`
	Tag     string         `json:"tag"`
	Stdin   *bool          `json:"stdin"` // missing from old clients, whose commands have input
}

type connectRequest struct {
	Process selector `json:"process"`
}

// processResponse is what Start and Connect answer with, many times: a start, data, and an end.
type processResponse struct {
	Event processEvent `json:"event"`
}

// processEvent is one of these.
type processEvent struct {
	Start     *startEvent `json:"start,omitempty"`
	Data      *dataEvent  `json:"data,omitempty"`
	End       *endEvent   `json:"end,omitempty"`
	Keepalive *struct{}   `json:"keepalive,omitempty"`
}

type startEvent struct {
	PID int `json:"pid"`
}

// dataEvent is one of these, in base64.
type dataEvent struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	PTY    []byte `json:"pty,omitempty"`
}

// endEvent says how a process ended. Without Exited the ExitCode is -1.
type endEvent struct {
	ExitCode int    `json:"exitCode"`
	Exited   bool   `json:"exited"`
	Status   string `json:"status"`
	Error    string `json:"error,omitempty"`
}

type updateRequest struct {
	Process selector  `json:"process"`
	PTY     *terminal `json:"pty"`
}

// processInput is one of these, in base64.
type processInput struct {
	Stdin *[]byte `json:"stdin"`
	PTY   *[]byte `json:"pty"`
}

type sendInputRequest struct {
	Process selector     `json:"process"`
	Input   processInput `json:"input"`
}

// streamInputRequest is one of these, and the first one a start.
type streamInputRequest struct {
	Start *struct {
		Process selector `json:"process"`
	} `json:"start"`
	Data *struct {
		Input processInput `json:"input"`
	} `json:"data"`
	Keepalive *struct{} `json:"keepalive"`
}

type sendSignalRequest struct {
	Process selector     `json:"process"`
	Signal  signalNumber `json:"signal"`
}

type closeStdinRequest struct {
	Process selector `json:"process"`
}

// nothing is an answer that says nothing.
type nothing struct{}

// signalNumber is a signal of Linux. Its JSON is the number, or the name that E2B has for two of them.
type signalNumber int

// UnmarshalJSON implements [json.Unmarshaler].
func (s *signalNumber) UnmarshalJSON(data []byte) error {
	var name string
	if json.Unmarshal(data, &name) == nil {
		switch name {
		case "SIGNAL_SIGTERM":
			*s = 15
		case "SIGNAL_SIGKILL":
			*s = 9
		default:
			return fmt.Errorf("the signal %.40q is neither SIGNAL_SIGTERM nor SIGNAL_SIGKILL", name)
		}
		return nil
	}
	n, err := strconv.Atoi(string(data))
	if err != nil || n < 0 || n > 64 {
		return fmt.Errorf("a signal is a number from 1 to 64")
	}
	*s = signalNumber(n)
	return nil
}
