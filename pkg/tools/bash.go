package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// Bash runs a shell command with bash, or with sh if the sandbox has no bash.
// The command has the secrets in its environment.
type Bash struct {
	// MaxTimeout is the longest time that the model may ask for; 0 means
	// DefaultMaxTimeout.
	MaxTimeout time.Duration
}

const bashSchema = `{
	"type": "object",
	"properties": {
		"command": {"type": "string", "minLength": 1, "description": "The command, as for bash -c."},
		"cwd": {"type": "string", "description": "Directory to run the command in; the working directory by default."},
		"timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": %v, "default": %v, "description": "Seconds after which the command is ended. In the background there is no limit unless you set one."},
		"run_in_background": {"type": "boolean", "default": false, "description": "Start the command and return at once, for servers and long tasks."}
	},
	"required": ["command"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (b Bash) Spec() Spec {
	most := maxTimeout(b.MaxTimeout)
	return Spec{
		Name: "Bash", Title: "Run a shell command",
		Description: "Runs a shell command in the sandbox, and returns what it prints to standard output and standard error, and its exit code if that is not 0. " +
			"Each command gets a new shell: use cwd, or cd and && in one command. Nobody can answer questions or press keys. " +
			"If the output has more than 2000 lines or 50 KiB, you get its beginning, its end, and the path of a file with all of it. " +
			"To keep a command running, set run_in_background, and use BashOutput and BashKill.",
		InputSchema: fmt.Appendf(nil, bashSchema, most.Seconds(), min(DefaultTimeout, most).Seconds()),
		Destructive: true, OpenWorld: true,
	}
}

// maxTimeout returns the longest timeout that a model may ask for.
func maxTimeout(set time.Duration) time.Duration {
	if set > 0 {
		return set
	}
	return DefaultMaxTimeout
}

// merged sends a script's stderr to its stdout, so that the order of the output
// is right and one offset is enough. It stands on the script's first line, to
// keep the line numbers in messages right.
const merged = "exec 2>&1; "

type bashInput struct {
	Command         string  `json:"command"`
	Cwd             string  `json:"cwd"`
	Timeout         float64 `json:"timeout"`
	RunInBackground bool    `json:"run_in_background"`
	// Clamp says that the model has milliseconds, and may give more than there are.
	Clamp bool `json:"clamp"`
}

// Call implements Tool.
func (b Bash) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[bashInput]("Bash", input)
	if problem != nil {
		return *problem, nil
	}
	cmd := env.Sandbox.Shell(ctx, merged+in.Command)
	cmd.ID, cmd.Dir, cmd.Env = env.ExecID, env.Path(in.Cwd), env.environment(nil)
	cmd.Timeout = seconds(in.Timeout)
	if in.RunInBackground {
		return startInBackground(ctx, env, cmd, in.Cwd)
	}
	most := maxTimeout(b.MaxTimeout)
	if cmd.Timeout == 0 {
		cmd.Timeout = min(DefaultTimeout, most)
	}
	unit := fmt.Sprintf("%v s", most.Seconds())
	if in.Clamp {
		cmd.Timeout, unit = min(cmd.Timeout, most), fmt.Sprintf("%d ms", most.Milliseconds())
	}
	return run(ctx, env, cmd, in.Cwd, fmt.Sprintf("Set a longer timeout, up to %s, or run_in_background", unit))
}

// seconds converts a timeout from a model. Only 0 gives 0, which means no timeout.
func seconds(n float64) time.Duration {
	if n == 0 {
		return 0
	}
	return max(time.Millisecond, time.Duration(n*float64(time.Second)))
}

// startInBackground starts a command and leaves it running.
func startInBackground(ctx context.Context, env *Env, cmd *podapi.Cmd, cwd string) (Result, error) {
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return notStarted(ctx, env, cmd, cwd, err)
	}
	// It may have ended already. That is fine: the agent keeps its output and status.
	_ = cmd.Process.Detach()
	return Text(env.voice().started(cmd.ID)), nil
}

func (ownVoice) started(id string) string {
	return fmt.Sprintf("Started in the background. Its id is %s: use it with BashOutput to read the output, and with BashKill to end it.", id)
}
