package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
)

func forkCommand(a *app) *cobra.Command {
	var from, image string
	cmd := &cobra.Command{
		Use:   "fork ID NEW...",
		Short: "Launch sandboxes with the workdir of another one",
		Long: `Fork launches new sandboxes that are like another one, and prints their ids. Their workdir is
as it is there now, or as it was in a checkpoint. What runs there does not run in them. Each
gets the files through this process, from agent to agent. In them, too, it is a
checkpoint: restore goes back to it.

A sandbox that is there already stays as it is, and of one that fails nothing is left;
then the status is 1, and the others are there.`,
		Example: `  orchestrator fork job-1 try-1 try-2 try-3
  orchestrator fork job-1 job-2 --checkpoint 4f0c…`,
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if image != "" && a.backend.Value == onThisHost {
				return usagef("--image is not for the local backend, which makes no pods: leave it out, or use --backend kubernetes")
			}
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.fork(cmd.Context(), sandbox, args[1:], from, image)
			})
		},
	}
	cmd.Flags().StringVar(&from, "checkpoint", "", "fork from the checkpoint `ID` (default a new one)")
	_ = cmd.RegisterFlagCompletionFunc("checkpoint", func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeCheckpoints(1)(cmd, args[:1], typed)
	})
	cmd.Flags().StringVar(&image, "image", "", "run pods of this `IMAGE` (default that of the other one)")
	return cmd
}

func (a *app) fork(ctx context.Context, sandbox *launcher.Sandbox, ids []string, from, image string) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	spec, err := launcher.SpecOf(ctx, l, sandbox.ID)
	switch {
	case errors.Is(err, launcher.ErrRejected):
		return unknownSpecError{err}
	case errors.Is(err, errors.ErrUnsupported) && a.backend.Value == throughGateway:
		return errors.New(`a gateway makes forks itself, by a create with "from": see docs/gateway.md`)
	case err != nil:
		return err
	}
	if image != "" {
		spec.Pod.Image = image
	}
	spec.OnClose = launcher.CloseKeep
	if err := checkNew(ctx, l, ids); err != nil {
		return err
	}
	specs := make([]launcher.Spec, len(ids))
	for i, id := range ids {
		specs[i] = spec
		specs[i].ID = id
	}
	point, err := a.pointOf(ctx, sandbox, from)
	if err != nil {
		return err
	}
	forks, err := launcher.Fork(ctx, l, sandbox, point, specs...)
	for _, fork := range forks {
		if fork != nil {
			printErr := a.print(struct {
				ID         string        `json:"id"`
				Workdir    render.Text   `json:"workdir"`
				Checkpoint checkpoint.ID `json:"checkpoint"`
				Pod        string        `json:"pod,omitempty"`
			}{fork.ID, render.Text(fork.Workdir), point, fork.PodName()}, fork.ID+"\n")
			err = errors.Join(err, printErr, fork.Close())
		}
	}
	return err
}

// checkNew checks the ids of new sandboxes before a checkpoint is made for them. It is no error if only some are there:
// the others can be made.
func checkNew(ctx context.Context, l launcher.Launcher, ids []string) error {
	var there []error
	for i, id := range ids {
		switch {
		case id == "":
			return usagef("the id of a sandbox must not be empty")
		case slices.Contains(ids[:i], id):
			return usagef("%q is named twice", id)
		}
		_, err := l.Find(ctx, id)
		switch {
		case err == nil:
			there = append(there, fmt.Errorf("forking into sandbox %q: it is there already: %w", id, fs.ErrExist))
		case !errors.Is(err, launcher.ErrNotFound):
			return err
		}
	}
	if len(there) < len(ids) {
		return nil
	}
	return errors.Join(there...)
}

// An unknownSpecError says that what a pod was made from cannot be told from it.
type unknownSpecError struct{ error }

func (e unknownSpecError) Unwrap() error { return e.error }

// pointOf returns a checkpoint that was named, or a new one.
func (a *app) pointOf(ctx context.Context, sandbox *launcher.Sandbox, text string) (checkpoint.ID, error) {
	if text != "" {
		return checkpoint.ParseID(text)
	}
	c, err := sandbox.Checkpoint(ctx, checkpoint.CreateOptions{})
	if err == nil {
		a.noteLacks(c)
	}
	return c.ID, err
}
