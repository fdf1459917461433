package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/podagent/podagent/cmd/podagent/internal/agent"
)

// connect joins the standard streams to the agent, for callers who can run a command in
// the pod but cannot connect to its ports. It holds no secret, and does not understand
// the bytes that it carries.
func connect(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("connect", flag.ContinueOnError)
	address := flags.String("listen", cmp.Or(os.Getenv(envName("listen")), defaultListen), "the `ADDRESS` where the agent serves; of several, the first")
	if err := parse(flags, args, "connect [--listen ADDRESS]\n\nThe default is the address in the agent's environment, "+envName("listen")+".", stdout); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("connect takes no arguments, but got %q", flags.Args())}
	}
	return agent.Join(ctx, addresses(*address)[0], os.Stdin, stdout)
}
