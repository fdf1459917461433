package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func describeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "describe ID",
		Short: "Describe a sandbox: its pod, agent, processes and events",
		Long: `Describe prints everything about a sandbox, in whatever state it is: its pod, its
agent, its processes, and the cluster's events about the pod. It does not count as a
heartbeat.`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.describeSandbox(cmd.Context(), args[0])
		},
	}
}

func (a *app) describeSandbox(ctx context.Context, id string) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	var d launcher.Description
	switch a.backend.Value {
	case onThisHost:
		d, err = describeLocal(ctx, l, id)
	case throughGateway:
		d, err = describeRemote(ctx, l, id)
	default:
		var k *launcher.Kubernetes
		if k, err = a.pods("describe"); err != nil {
			return err
		}
		d, err = k.Describe(ctx, id)
	}
	if err != nil {
		return &sandboxError{id: id, launching: true, err: err}
	}
	if a.json() {
		return a.describeJSON(d)
	}
	return a.describeText(d)
}

// describeLocal describes a sandbox without a pod, also one that cannot be opened. Opening it starts its
// agent, so that comes first.
func describeLocal(ctx context.Context, l launcher.Launcher, id string) (d launcher.Description, err error) {
	sandbox, openErr := l.Open(ctx, id)
	if openErr == nil {
		defer sandbox.Close()
	}
	if openErr != nil && ctx.Err() != nil {
		return d, openErr
	}
	if d.Summary, err = l.Find(ctx, id); err != nil {
		return d, err
	}
	if d.AgentErr = openErr; openErr == nil {
		askAgent(ctx, sandbox, &d)
	}
	return d, nil
}

// describeRemote describes a sandbox behind a gateway, also one that cannot be opened.
func describeRemote(ctx context.Context, l launcher.Launcher, id string) (d launcher.Description, err error) {
	if d.Summary, err = l.Find(ctx, id); err != nil {
		return d, err
	}
	var sandbox *launcher.Sandbox
	if sandbox, d.AgentErr = l.Open(ctx, id); d.AgentErr == nil {
		askAgent(ctx, sandbox, &d)
		err = sandbox.Close()
	}
	return d, err
}

// askAgent adds what the agent says to a description.
func askAgent(ctx context.Context, sandbox *launcher.Sandbox, d *launcher.Description) {
	info, err := sandbox.Info(ctx)
	if err == nil || errors.Is(err, podapi.ErrVersion) {
		d.Agent = &info
	}
	if err == nil {
		d.Processes, err = sandbox.Processes(ctx)
	}
	d.AgentErr = err
}
