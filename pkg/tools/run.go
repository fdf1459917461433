package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// run runs a command in the foreground, and returns its output and how it ended.
// cwd is its directory as the model named it. slow says what to try if the
// command times out.
func run(ctx context.Context, env *Env, cmd *podapi.Cmd, cwd, slow string) (Result, error) {
	out := newOutput(ctx, env)
	var all io.Writer = out
	if env.Output != nil {
		all = io.MultiWriter(out, env.Output)
	}
	// Redact each stream by itself: in a merged one, a secret of one stream could
	// be torn by output of the other.
	stdout, stderr := env.redactor.Writer(all), env.redactor.Writer(all)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	_, _ = stdout.Close(), stderr.Close() // out never fails
	status := cmd.Process.Status()
	switch {
	case ctx.Err() != nil:
		out.discard()
		return Result{}, ctx.Err()
	case status == nil:
		out.discard()
		return notStarted(ctx, env, cmd, cwd, err)
	case isLost(err):
		out.discard()
		return Result{}, err
	}
	return env.voice().ran(ranCommand{out.end(ctx), *status, cmd.Process.Omitted(), cmd.Timeout, slow}), nil
}

// ranCommand is a command that has ended in the foreground.
type ranCommand struct {
	output  string
	status  podapi.ExitStatus
	omitted int64
	timeout time.Duration
	slow    string // what to try if it timed out
}

func (ownVoice) ran(c ranCommand) Result {
	result := Text(report(c.output, ending(c.status, c.timeout, c.slow), c.omitted))
	result.IsError = c.status.Reason != podapi.Exited && c.status.Reason != podapi.Signalled
	return result
}

// isLost reports whether the sandbox was lost together with a command. A model can
// go on if only the container was lost, since it is started again.
func isLost(err error) bool {
	return errors.Is(err, launcher.ErrGone) || errors.Is(err, launcher.ErrNodeLost) || errors.Is(err, podapi.ErrUnavailable)
}

// notStarted turns the error of a command without an exit status into a result or
// an error for the host.
func notStarted(ctx context.Context, env *Env, cmd *podapi.Cmd, cwd string, err error) (Result, error) {
	if errors.Is(err, podapi.ErrAgentLost) && !isLost(err) {
		return Errorf("(lost: the sandbox's agent ended while it was starting the command, which ran up to then or not at all; %s)", afterLoss), nil
	}
	failure, ok := err.(*fs.PathError)
	if !ok || !isAnswer(err) {
		return Result{}, err
	}
	what := "the command"
	if len(cmd.Args) > 0 {
		what = env.name(cmd.Args[0])
	}
	switch {
	case failure.Op == "chdir":
		result, err := failed(ctx, env, "run in", cwd, err)
		if err == nil {
			result.Content[0].Text += " Nothing was run."
		}
		return result, err
	case failure.Op == "exec" && errors.Is(err, fs.ErrNotExist):
		return Errorf("cannot run %s: the sandbox has no such executable", what), nil
	}
	return Errorf("cannot run %s: %s", what, reason(err)), nil
}

// report joins the output and its ending.
func report(output, ending string, omitted int64) string {
	if !utf8.ValidString(output) {
		ending = "(some bytes of the output are not UTF-8 and are shown as \uFFFD)\n" + ending
	}
	if omitted > 0 {
		ending = fmt.Sprintf("(%d bytes of the output are missing: there was more than the sandbox keeps)\n", omitted) + ending
	}
	if ending == "" {
		if output == "" {
			return "(no output)"
		}
		return output
	}
	return endLine(output) + strings.TrimSuffix(ending, "\n")
}

// afterLoss is what else a model must know when the agent was lost.
const afterLoss = "all commands have ended; files are as they were left"

// ending says how a process ended, in lines in brackets. It is empty for exit
// code 0.
func ending(status podapi.ExitStatus, timeout time.Duration, slow string) string {
	var text strings.Builder
	switch status.Reason {
	case podapi.Exited:
		if status.Code != 0 {
			fmt.Fprintf(&text, "(exit code: %d)\n", status.Code)
		}
	case podapi.Signalled:
		fmt.Fprintf(&text, "(exit code: %d, ended by %s)\n", status.Code, signalName(status.Signal))
	case podapi.TimedOut:
		fmt.Fprintf(&text, "(timed out after %v, and was killed; its output until then is above. %s)\n", timeout, slow)
	case podapi.OutOfMemory:
		text.WriteString("(out of memory: the command was killed because the sandbox has no more memory; use less at once)\n")
	case podapi.AgentLost:
		fmt.Fprintf(&text, "(lost: the sandbox's agent ended while the command ran, perhaps for lack of memory. What the command did until then is done; %s)\n", afterLoss)
	default:
		fmt.Fprintf(&text, "(%s)\n", status)
	}
	text.WriteString(remarks(status, "use run_in_background for such commands"))
	return text.String()
}

// remarks returns further lines in brackets about a process that has ended. advice
// is added if it left a process behind.
func remarks(status podapi.ExitStatus, advice string) string {
	var text string
	if status.OutputOpen {
		text += "(a process that it started is still running, and its output is not shown; " + advice + ")\n"
	}
	if status.ProcessLimit {
		text += "(the sandbox reached its limit of processes, so some could not be started)\n"
	}
	return text
}

// signalNames are the names on Linux, on most machines.
var signalNames = map[int]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

func signalName(n int) string {
	if name := signalNames[n]; name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}
