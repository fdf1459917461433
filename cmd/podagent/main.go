// Podagent is the agent that runs in a sandbox. It serves the sandbox's files, search
// and processes over gRPC (package podapi). With the same code it also searches the
// local file system, for people in a terminal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/podagent/internal/agent"
	"github.com/podagent/podagent/cmd/podagent/internal/isolate"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

const usage = `podagent serves a sandbox's files, search and processes over gRPC.

Usage:
  podagent serve [flags] [-- COMMAND]   serve until TERM or INT, beside COMMAND
  podagent health [--health ADDRESS]    exit with 0 if the agent is serving
  podagent connect [--listen ADDRESS]   join standard input and output to the agent
  podagent grep [flags] PATTERN [PATH]  search local files
  podagent glob [flags] PATTERN         find local files by name
  podagent copy [--dir DIR] [FROM TO]   copy directories' contents, without a shell
  podagent install DIR                  copy this program to DIR, for other images
  podagent version                      print the version

"podagent VERB --help" lists the flags of a verb.
`

// verb is the function of a verb on the command line.
type verb func(ctx context.Context, args []string, stdout io.Writer) error

var verbs = map[string]verb{
	"serve":   serve,
	"health":  checkHealth,
	"connect": connect,
	"grep":    grep,
	"glob":    glob,
	"copy":    copyDirs,
	"install": install,
	"version": printVersion,
}

// The exit statuses. 1 also says that a search found nothing. A search that fails has
// ripgrep's status.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake on the command line.
type usageError struct{ error }

// Serve reaps orphans on the main thread, and only an init function can keep that. A
// goroutine with a thread of its own slows the goroutines that it talks to: a search
// would take a third longer.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		runtime.LockOSThread()
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(stdout, usage)
		return 0
	}
	v, ok := verbs[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "podagent: unknown verb %q: see podagent --help\n", args[0])
		return exitUsage
	}
	return status(v(ctx, args[1:], stdout), stderr)
}

// status reports err, and returns the exit status for it.
func status(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	main, ended := errors.AsType[*agent.ExitError](err)
	said := ended && main.Name == "" // by the isolated agent, which this program waited for
	if !said && !errors.Is(err, render.ErrNothing) && !errors.Is(err, render.ErrIncomplete) {
		text := render.IsTerminal(stderr).Text([]byte(err.Error()))
		fmt.Fprintf(stderr, "podagent: %s\n", text)
	}
	if ended {
		return main.Code
	}
	switch {
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.Is(err, agent.ErrWayOut):
		return wayout.ExitStatus
	case errors.Is(err, isolate.ErrUnavailable):
		return isolation.ExitStatus
	case render.SearchFailed(err):
		return render.ExitSearchFailed
	}
	return exitFailed
}

// parse parses the flags of a verb, with the help that says how it is used.
func parse(flags *flag.FlagSet, args []string, synopsis string, stdout io.Writer) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(stdout, "Usage: podagent %s\n\n", synopsis)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return err
	}
	if err != nil {
		return usageError{fmt.Errorf("%w: see podagent %s --help", err, flags.Name())}
	}
	return nil
}

func printVersion(_ context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	if err := parse(flags, args, "version", stdout); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "podagent %s (protocol %d.%d)\n", wire.Version(), wire.ProtocolMajor, wire.ProtocolMinor)
	return err
}
