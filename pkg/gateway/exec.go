package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
	"github.com/podagent/podagent/pkg/podapi"
)

func (g *Gateway) execOperations() {
	key := param("header", idempotencyKey, huma.TypeString,
		"a UUIDv7, made when the command is first meant: a repeated request with it runs nothing again, and has the same answer")
	key.Schema.Format = "uuid"
	content := g.lineOf(reflect.TypeFor[OutputLine]())
	content[jsonType] = &huma.MediaType{Schema: g.schema(reflect.TypeFor[Result]())}
	g.rawWith(huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: sandboxRoot + "/exec", Summary: "Run a command",
		Description: "The answer comes when the command has ended; or, if Accept asks for " + linesType + ", its output as it comes. " + linesDoc +
			"A caller that leaves ends the command, unless the request has an Idempotency-Key: then it runs on, and the same request finds it. " +
			"A gateway that ends does not end it: lines break off with one of type reconnect, and the answer of a command that takes too long is 503, with its exec_id. " +
			"Its output goes on at another gateway, by read-output.",
		Parameters:  []*huma.Param{key},
		RequestBody: &huma.RequestBody{Required: true, Content: bodyOf(jsonType, g.schema(reflect.TypeFor[Command]()))},
		Responses: map[string]*huma.Response{
			"200": {Description: "how it ended, whatever its exit code", Content: content},
			"202": {Description: "it has started, and runs on", Content: bodyOf(jsonType, g.schema(reflect.TypeFor[Started]()))},
		},
	}, (*rawCall).readCommand, (*rawCall).exec)
}

// Command is a command to run.
type Command struct {
	Args    []string `json:"args,omitempty" doc:"the command and its arguments, without a shell"`
	Script  string   `json:"script,omitempty" doc:"a script for bash, or for sh where there is no bash, in place of args"`
	Dir     string   `json:"dir,omitempty" doc:"the working directory: the workdir unless said otherwise"`
	Env     []string `json:"env,omitempty" doc:"NAME=VALUE, in addition to the sandbox's environment"`
	Stdin   []byte   `json:"stdin,omitempty" doc:"standard input, in base64"`
	Timeout float64  `json:"timeout_seconds,omitempty" minimum:"0" maximum:"1000000000" doc:"when it is ended, with all that it started"`

	OpenStdin bool          `json:"open_stdin,omitempty" doc:"leave standard input open after stdin, for write-stdin"`
	Detach    bool          `json:"detach,omitempty" doc:"answer 202 as soon as it has started, and let it run on"`
	Terminal  *TerminalSize `json:"terminal,omitempty" doc:"give it a terminal of this size, with open input"`
}

// Exit is how a command ended.
type Exit struct {
	ExecID string        `json:"exec_id"`
	Reason podapi.Reason `json:"reason" enum:"exited,signalled,timed out,out of memory,agent lost"`
	Code   int           `json:"code" doc:"the exit code; 128 + N for signal N; -1 if the agent was lost"`
	Signal int           `json:"signal,omitempty" doc:"the number of the signal that ended it"`
	Wall   int64         `json:"wall_ms"`
	User   int64         `json:"user_ms"`
	System int64         `json:"system_ms"`
	MaxRSS int64         `json:"max_rss_bytes"`
}

func exitOf(id string, s podapi.ExitStatus) Exit {
	return Exit{id, s.Reason, s.Code, s.Signal, s.Wall.Milliseconds(), s.User.Milliseconds(), s.System.Milliseconds(), s.MaxRSS}
}

// Result is how a command ended, with the end of its output.
type Result struct {
	Exit
	Stdout        string `json:"stdout,omitempty"`
	StdoutOther   []byte `json:"stdout_base64,omitempty" doc:"in place of stdout, if that is not UTF-8"`
	StdoutOmitted int64  `json:"stdout_omitted,omitempty" doc:"how many bytes are missing before it"`
	Stderr        string `json:"stderr,omitempty"`
	StderrOther   []byte `json:"stderr_base64,omitempty" doc:"in place of stderr, if that is not UTF-8"`
	StderrOmitted int64  `json:"stderr_omitted,omitempty" doc:"how many bytes are missing before it"`
}

// Started is the answer to a command that was only to be started.
type Started struct {
	ExecID string `json:"exec_id"`
}

// OutputLine is a line of an answer that follows a command.
type OutputLine struct {
	Type      string `json:"type" enum:"start,stdout,stderr,exit,running,reconnect" doc:"the last line is exit; running if the command is not to be followed; or reconnect if the gateway ends, and the command runs on"`
	ExecID    string `json:"exec_id,omitempty" doc:"at the start, and of reconnect"`
	Offset    *int64 `json:"offset,omitempty" doc:"where this part of stdout or stderr begins, in bytes"`
	Data      string `json:"data,omitempty"`
	DataOther []byte `json:"data_base64,omitempty" doc:"in place of data, if that is not UTF-8"`
	Exit      *Exit  `json:"exit,omitempty"`

	StdoutOffset *int64 `json:"stdout_offset,omitempty" doc:"of reconnect: where stdout goes on, by read-output at another gateway"`
	StderrOffset *int64 `json:"stderr_offset,omitempty" doc:"of reconnect: where stderr does"`
	StdinOffset  *int64 `json:"stdin_offset,omitempty" doc:"of reconnect to exec: how much input the command has taken; the rest is for write-stdin"`
}

// readCommand reads the body of exec.
func (c *rawCall) readCommand() (Detail, error) {
	c.command = &Command{}
	if err := c.body(c.command); err != nil {
		return Detail{}, err
	}
	if c.command.Detach && c.command.Stdin != nil {
		return Detail{}, invalid("stdin would not be taken before the answer: detach with open_stdin, and send it afterwards")
	}
	id, err := c.execID()
	if c.command.Script != "" {
		return Detail{Args: []string{c.command.Script}, ExecID: id}, err
	}
	return Detail{Args: c.command.Args, ExecID: id}, err
}

func (c *rawCall) exec() error {
	in := c.command
	id, err := c.execID()
	if err != nil {
		return err
	}
	c.ends = id == ""
	ctx, started := c.starting(id != "")
	c.started = started
	cmd := c.sandbox.Shell(ctx, in.Script)
	cmd.ID, cmd.Args, cmd.Dir, cmd.Env = id, in.Args, in.Dir, in.Env
	cmd.Timeout = time.Duration(in.Timeout * float64(time.Second))
	if in.Stdin != nil {
		cmd.Stdin = bytes.NewReader(in.Stdin)
	}
	if in.OpenStdin || in.Terminal != nil {
		input, end := stdin.Open(in.Stdin)
		defer end() // nothing reads it any more
		cmd.Stdin = input
	}
	if in.Terminal != nil {
		cmd.Terminal = in.Terminal.size()
	}
	if in.Detach {
		return c.execDetached(cmd)
	}
	if strings.Contains(c.r.Header.Get("Accept"), linesType) {
		return c.execLines(cmd)
	}
	return c.execResult(cmd)
}

func (c *rawCall) execResult(cmd *podapi.Cmd) error {
	stdout, stderr := &tail{limit: execOutputLimit}, &tail{limit: execOutputLimit}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := c.start(cmd); err != nil {
		return err
	}
	status, err := c.await(cmd.Process)
	switch {
	case errors.Is(err, podapi.ErrDetached) && c.gatewayEnds():
		return &leftRunning{cmd.ID}
	case err != nil:
		return err
	}
	out := Result{Exit: exitOf(cmd.ID, *status), StdoutOmitted: stdout.omitted(status.Stdout), StderrOmitted: stderr.omitted(status.Stderr)}
	out.Stdout, out.StdoutOther = split(stdout.String())
	out.Stderr, out.StderrOther = split(stderr.String())
	return c.json(http.StatusOK, out)
}

func (c *rawCall) execLines(cmd *podapi.Cmd) error {
	defer c.keepLines()()
	lines := &outputLines{call: c}
	stdout, stderr := lines.of("stdout"), lines.of("stderr")
	cmd.Stdout, cmd.Stderr, cmd.StdoutAt, cmd.StderrAt = stdout, stderr, stdout.at, stderr.at
	started := make(chan struct{})
	lines.before = started
	if err := c.start(cmd); err != nil {
		return err
	}
	err := c.line(OutputLine{Type: "start", ExecID: cmd.ID}, true)
	close(started)
	status, left, waitErr := c.awaitHere(cmd.Process)
	switch err := errors.Join(err, waitErr); {
	case left:
		return lines.reconnect(cmd.Process, cmd.Stdin != nil)
	case err != nil:
		return err
	}
	exit := exitOf(cmd.ID, *status)
	return lines.end(OutputLine{Type: "exit", Exit: &exit})
}

// execDetached answers when a command has started.
func (c *rawCall) execDetached(cmd *podapi.Cmd) error {
	if err := c.start(cmd); err != nil {
		return err
	}
	if err := cmd.Process.Detach(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return c.json(http.StatusAccepted, Started{cmd.ID})
}

// start starts the command of an exec.
func (c *rawCall) start(cmd *podapi.Cmd) error {
	defer c.started()
	if err := cmd.Start(); err != nil {
		return err
	}
	actOf(c).runs(cmd.Process)
	return nil
}

// starting returns the context of a command that is to start: it outlives the call, or ends with
// its caller, but not with the gateway. Until started is called, it ends a while after the call in
// any case, so that a sandbox that never answers holds nothing for good.
func (c *rawCall) starting(outlives bool) (ctx context.Context, started func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c))
	var mu sync.Mutex
	var late *time.Timer
	has := false // started
	context.AfterFunc(c, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !outlives && !c.gatewayEnds():
			cancel()
		case !has:
			late = time.AfterFunc(startTime, cancel)
		}
	})
	return ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		has = true
		if late != nil {
			late.Stop()
		}
	}
}

// await returns how a process ended. If the caller leaves, the process runs on, unless it ends then.
// If the gateway does, it runs on in any case.
func (c *rawCall) await(p *podapi.Process) (*podapi.ExitStatus, error) {
	defer context.AfterFunc(c, func() {
		if !c.ends || c.gatewayEnds() {
			_ = p.Detach()
		}
	})()
	err := p.Wait()
	if s := p.Status(); s != nil {
		actOf(c).exited(s)
	}
	if _, ended := errors.AsType[*podapi.ExitError](err); err != nil && !ended {
		return nil, err
	}
	return p.Status(), nil
}
