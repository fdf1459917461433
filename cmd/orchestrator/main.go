// Orchestrator makes sandboxes and works in them, for people in a terminal and for
// scripts. It parses arguments and prints results; package launcher makes the
// sandboxes, and package podapi does the work in them.
package main

import (
	"context"
	"io"
	"os"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
)

// streams are the standard streams.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := console.UntilSignal(context.Background())
	status := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(status)
}

// run runs the command line, and returns the program's exit status.
func run(ctx context.Context, args []string, std streams) int {
	a := &app{streams: std, terminal: render.IsTerminal(std.out)}
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	err := root.ExecuteContext(ctx)
	report(ctx, std.err, a.marked(err))
	return exitStatus(ctx, err)
}
