package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

func forwardCommand(a *app) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "forward ID [LOCAL:]PORT...",
		Short: "Make servers in a sandbox reachable at ports of this machine",
		Long: `Forward listens at ports of this machine and joins each connection with one to a
port of the sandbox. The server there may listen on the loopback only. Forward prints
a line for each port once all are open. It runs until you interrupt it or the sandbox
is gone.

Without LOCAL, the local port is PORT; an empty LOCAL chooses a free port. If a
connection fails, only this one ends, and standard error says why. When the
connection to the sandbox breaks, the open connections end, and new ones work as soon
as the sandbox can be reached again. Forward reaches only ports of the sandbox, not
other hosts. With the local backend, these are ports of this machine.`,
		Example: `  orchestrator forward job-1 8080              # http://127.0.0.1:8080
  orchestrator forward job-1 3000:80 :5432 -o json`,
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			ports, err := parsePorts(args[1:])
			if err != nil {
				return err
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.forward(cmd.Context(), sandbox, address, ports)
			})
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "listen at this `ADDRESS` of this machine; any but the loopback lets other machines in")
	return cmd
}

// forwarding is a port of this machine, 0 for a free one, and that of the sandbox.
type forwarding struct{ local, remote int }

func parsePorts(args []string) ([]forwarding, error) {
	ports := make([]forwarding, len(args))
	for i, arg := range args {
		var ok bool
		if ports[i], ok = parsePort(arg); !ok {
			return nil, usagef(`%q is not [LOCAL:]PORT with ports up to 65535: give "8080", "3000:80" or ":5432"`, arg)
		}
	}
	return ports, nil
}

func parsePort(arg string) (forwarding, bool) {
	local, remote, both := strings.Cut(arg, ":")
	if !both {
		local, remote = arg, arg
	}
	to, err := strconv.ParseUint(remote, 10, 16)
	if err != nil || to == 0 {
		return forwarding{}, false
	}
	if local == "" {
		return forwarding{0, int(to)}, true
	}
	from, err := strconv.ParseUint(local, 10, 16)
	return forwarding{int(from), int(to)}, err == nil
}

// forward listens at all ports, prints them, and serves them until one ends.
func (a *app) forward(ctx context.Context, sandbox *launcher.Sandbox, address string, ports []forwarding) error {
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for _, p := range ports {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(p.local)))
		if err != nil {
			return local(err)
		}
		listeners = append(listeners, l)
	}
	for i, l := range listeners {
		if err := a.forwarded(l.Addr(), ports[i].remote); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var serving sync.WaitGroup
	for i, l := range listeners {
		serving.Go(func() {
			cancel(sandbox.Forward(ctx, l, ports[i].remote, func(err error) { a.note("%s", message(err)) }))
		})
	}
	serving.Go(func() { cancel(a.awaitGone(ctx, sandbox)) })
	serving.Wait()
	return context.Cause(ctx)
}

// forwarded prints which port is forwarded where.
func (a *app) forwarded(addr net.Addr, port int) error {
	return a.print(struct {
		Address string `json:"address"`
		Port    int    `json:"port"`
	}{addr.String(), port}, fmt.Sprintf("%s -> %d\n", addr, port))
}

// awaitGone waits until the sandbox is gone, and returns why. Meanwhile it notes
// when the sandbox cannot be reached, and when it can be reached again.
func (a *app) awaitGone(ctx context.Context, sandbox *launcher.Sandbox) error {
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		err := a.look(ctx, sandbox)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isGone(err):
			return err
		case err != nil && !away:
			a.note("sandbox %s cannot be reached; trying again: %s", quote(sandbox.ID), message(err))
		case err == nil && away:
			a.note("sandbox %s can be reached again", quote(sandbox.ID))
		}
		away = err != nil
	}
}

// look returns nil if the sandbox answers. If it does not, the launcher may know
// that it is gone.
func (a *app) look(ctx context.Context, sandbox *launcher.Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, err := sandbox.Info(ctx)
	if err == nil || isGone(err) {
		return err
	}
	l, err := a.launcher()
	if err != nil {
		return err
	}
	again, err := l.Open(ctx, sandbox.ID)
	if err == nil {
		err = again.Close()
	}
	return err
}

// isGone reports whether err says that the sandbox no longer exists, or will not
// answer again.
func isGone(err error) bool {
	return errors.Is(err, launcher.ErrNotFound) || errors.Is(err, launcher.ErrGone) || errors.Is(err, launcher.ErrStale) || errors.Is(err, launcher.ErrPaused)
}
