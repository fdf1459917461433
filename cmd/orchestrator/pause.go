package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

func pauseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "pause ID...",
		Short: "Remove the pods of sandboxes, and keep their files",
		Long: `Pause ends everything that runs in these sandboxes and removes their pods. The files
in their workdirs stay, in claims of their own. A sandbox that was launched without
--keep-workspace has no such claim, unless a template of agent-sandbox gives it one: pause
leaves it as it is and fails.
"orchestrator resume" goes on with a paused sandbox, and "orchestrator down" removes
it with its files.`,
		Example: `  orchestrator up job-1 --keep-workspace
  orchestrator pause job-1
  orchestrator resume job-1`,
		Args:              takes(1, -1),
		ValidArgsFunction: a.completeIDs(true),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.pause(cmd.Context(), args) },
	}
}

func (a *app) pause(ctx context.Context, ids []string) error {
	l, err := a.podLauncher("pause")
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range ids {
		if err := l.Pause(ctx, id); err != nil {
			failed = append(failed, &sandboxError{id: id, err: err})
		}
	}
	return errors.Join(failed...)
}

func resumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume ID",
		Short: "Go on with a sandbox that was paused",
		Long: `Resume makes a new pod for a paused sandbox, as it was made the last time and with
the files in its workdir. It prints the id once the agent answers. Resume also works
if the pod of a sandbox with a claim of its own has ended: at its deadline, by
eviction, or by itself.`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.resume(cmd.Context(), args[0]) },
	}
}

func (a *app) resume(ctx context.Context, id string) error {
	l, err := a.podLauncher("resume")
	if err != nil {
		return err
	}
	sandbox, err := l.Resume(ctx, id)
	if err != nil {
		return &sandboxError{id: id, launching: true, err: err}
	}
	defer sandbox.Close()
	return a.print(struct {
		ID    string         `json:"id"`
		State launcher.State `json:"state"`
		Pod   string         `json:"pod"`
	}{sandbox.ID, launcher.Running, sandbox.PodName()}, sandbox.ID+"\n")
}
