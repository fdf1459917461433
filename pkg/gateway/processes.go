package gateway

import (
	"context"
	"errors"
	"math"
	"net/http"
	"reflect"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func (g *Gateway) processOperations() {
	const processes = sandboxRoot + "/processes"
	register(g, http.MethodGet, processes, "list-processes", "List the commands that the sandbox knows", g.processes)
	register(g, http.MethodPost, processes+"/{exec_id}/signal", "signal-process", "Send a signal to a command, and to all that it started", g.signal)
	execID := param("path", "exec_id", huma.TypeString, "the command's exec id")
	execID.Required = true
	g.raw(huma.Operation{
		OperationID: "read-output", Method: http.MethodGet, Path: processes + "/{exec_id}/output", Summary: "Read the output of a command, from an offset on",
		Description: "Output that the sandbox no longer has is left out: the first part begins at a higher offset. " + linesDoc +
			"A last line of type reconnect says where it goes on at another gateway, because this one ends.",
		Parameters: []*huma.Param{
			execID,
			param("query", "stdout_offset", huma.TypeInteger, "where stdout begins, in bytes"),
			param("query", "stderr_offset", huma.TypeInteger, "where stderr begins, in bytes"),
			param("query", "follow", huma.TypeBoolean, "follow the command to its end"),
			wakeParam,
		},
		Responses: map[string]*huma.Response{"200": {Description: "the output, and how it ended", Content: g.lineOf(reflect.TypeFor[OutputLine]())}},
	}, (*rawCall).output)
}

// Process describes a command that the sandbox knows.
type Process struct {
	ExecID     string    `json:"exec_id"`
	PID        int       `json:"pid"`
	Args       []string  `json:"args,omitempty" nullable:"false" doc:"the command, or the beginning of it"`
	Script     string    `json:"script,omitempty"`
	CommandCut int64     `json:"command_cut,omitempty" doc:"how many bytes of the command are missing"`
	Started    time.Time `json:"started_at"`
	Stdout     int64     `json:"stdout_bytes" doc:"how much it has written"`
	Stderr     int64     `json:"stderr_bytes"`
	Terminal   bool      `json:"terminal,omitempty" doc:"it has a terminal"`
	Exit       *Exit     `json:"exit,omitempty" doc:"how it ended, if it has"`
}

type processesOutput struct {
	Body struct {
		Processes []Process `json:"processes" nullable:"false"`
	}
}

func (g *Gateway) processes(ctx context.Context, in *sandboxPath) (*processesOutput, error) {
	out := &processesOutput{}
	out.Body.Processes = []Process{}
	return out, g.lookAt(ctx, in.ID, func(s *launcher.Sandbox) error {
		all, err := s.Processes(ctx)
		for _, p := range all {
			out.Body.Processes = append(out.Body.Processes, processOf(p))
		}
		return err
	})
}

func processOf(p podapi.ProcessInfo) Process {
	out := Process{
		ExecID: p.ID, PID: p.PID, Args: p.Args, Script: p.Script, CommandCut: p.CommandCut, Started: p.Started,
		Stdout: p.Stdout, Stderr: p.Stderr, Terminal: p.Terminal,
	}
	if p.Status != nil {
		exit := exitOf(p.ID, *p.Status)
		out.Exit = &exit
	}
	return out
}

type signalInput struct {
	ID     string `path:"id" doc:"the sandbox's name"`
	ExecID string `path:"exec_id" doc:"the command's exec id"`
	Body   struct {
		Signal int `json:"signal" minimum:"1" maximum:"64" doc:"the signal's number on Linux" example:"15"`
	}
}

func (in *signalInput) detail(context.Context) Detail { return Detail{ExecID: in.ExecID} }

func (g *Gateway) signal(ctx context.Context, in *signalInput) (*struct{}, error) {
	return nil, g.on(ctx, in.ID, func(s *launcher.Sandbox) error {
		return s.Signal(ctx, in.ExecID, syscall.Signal(in.Body.Signal))
	})
}

// output answers with the output of a command.
func (c *rawCall) output() error {
	follow, err := c.flag("follow")
	if err != nil {
		return err
	}
	lines, o := &outputLines{call: c}, podapi.AttachOptions{NoFollow: !follow}
	for name, to := range map[string]*int64{"stdout_offset": &o.StdoutOffset, "stderr_offset": &o.StderrOffset} {
		if *to, err = c.number(name, math.MaxInt64); err != nil {
			return err
		}
	}
	defer c.keepLines()()
	stdout, stderr := lines.of("stdout"), lines.of("stderr")
	o.Stdout, o.StdoutAt, o.Stderr, o.StderrAt = stdout, stdout.at, stderr, stderr.at
	p, err := c.sandbox.Attach(c, c.r.PathValue("exec_id"), o)
	if err == nil {
		err = c.beginLines()
	}
	if err != nil {
		return err
	}
	status, left, err := c.awaitHere(p)
	switch {
	case left && follow:
		return lines.reconnect(p, false)
	case errors.Is(err, podapi.ErrDetached) && c.Err() == nil:
		return lines.end(OutputLine{Type: "running"})
	case err != nil:
		return err
	}
	exit := exitOf(p.ID(), *status)
	return lines.end(OutputLine{Type: "exit", Exit: &exit})
}
