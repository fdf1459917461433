package mcpserver_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/mcpserver"
)

// run serves a sandbox's tools over a pipe until ctx ends, or the client goes.
func run(ctx context.Context, t *testing.T, sandbox *launcher.Sandbox, opts tools.Options) (c *client, leave func() error, ended <-chan error) {
	t.Helper()
	here, there := net.Pipe()
	server := mcpserver.New(sandbox, tools.New(sandbox, opts, tools.Coding()...))
	end := make(chan error, 1)
	go func() { end <- mcpserver.Run(ctx, server, &mcp.IOTransport{Reader: there, Writer: there}) }()
	c, err := connect(t, &mcp.IOTransport{Reader: here, Writer: here})
	if err != nil {
		t.Fatal(err)
	}
	return c, here.Close, end
}

func TestRunEndsCommandsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _, ended := run(ctx, t, launchertest.Sandbox(t), tools.Options{})
	pid, called := c.begin(t.Context(), t)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if err := <-called; err == nil {
		t.Error("the call succeeded")
	}
	awaitEnd(t, pid)
}

func TestRunEndsCommandsWhenTheClientGoes(t *testing.T) {
	t.Parallel()
	c, leave, ended := run(t.Context(), t, launchertest.Sandbox(t), tools.Options{})
	pid, called := c.begin(t.Context(), t)
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	<-called
	<-ended
	awaitEnd(t, pid)
}
