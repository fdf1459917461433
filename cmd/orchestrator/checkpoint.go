package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
)

func checkpointCommand(a *app) *cobra.Command {
	var opts checkpoint.CreateOptions
	cmd := &cobra.Command{
		Use:   "checkpoint ID",
		Short: "Keep the present state of a sandbox's workdir",
		Long: `Checkpoint keeps what is in the workdir of a sandbox now, whoever has written it, and
prints the id of this checkpoint. "orchestrator restore" brings it back, "orchestrator
diff" shows what has changed since. Commands may run meanwhile.

The id is a hash of what the checkpoint consists of. Keep it: by it a later restore
notices if commands have changed the checkpoint.

The checkpoints take half of the free disk at most, and there are up to 1000. Beyond 1000
the oldest go, those with a name last. For want of room only those without a name go;
without any, the call fails.`,
		Example: `  orchestrator checkpoint job-1
  orchestrator checkpoint job-1 --name "tests pass" --exclude node_modules/`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.checkpoint(cmd.Context(), sandbox, opts)
			})
		},
	}
	cmd.Flags().StringVar(&opts.Name, "name", "", "call it `NAME`, for people")
	cmd.Flags().StringArrayVar(&opts.Exclude, "exclude", nil, "leave out what the glob `GLOB` matches, such as *.log or target/; may be repeated")
	return cmd
}

func (a *app) checkpoint(ctx context.Context, sandbox *launcher.Sandbox, opts checkpoint.CreateOptions) error {
	c, err := sandbox.Checkpoint(ctx, opts)
	if err != nil {
		return err
	}
	if !a.json() {
		a.noteLacks(c)
	}
	return a.print(newCheckpoint(c), string(c.ID)+"\n")
}

// noteLacks says what a new checkpoint lacks, and what it may have from two moments.
func (a *app) noteLacks(c checkpoint.Checkpoint) {
	a.noteLeft("is not in it", c.LeftOut, c.MoreLeftOut)
	for _, path := range c.Moving {
		a.note("%s changed whenever it was read", quote(path))
	}
	a.noteMore(c.MoreMoving, "changed whenever they were read")
}

// noteLeft says which paths a call left as they are, and why.
func (a *app) noteLeft(what string, left []checkpoint.LeftOut, more int64) {
	for _, l := range left {
		a.note("%s %s: %s", quote(l.Path), what, l.Why)
	}
	a.noteMore(more, what)
}

func (a *app) noteMore(more int64, what string) {
	if more > 0 {
		a.note("and %d more: %s", more, what)
	}
}

func checkpointsCommand(a *app) *cobra.Command {
	var remove []string
	cmd := &cobra.Command{
		Use:   "checkpoints ID",
		Short: "List the checkpoints of a sandbox, or remove some",
		Long: `Checkpoints lists the checkpoints of a sandbox, the oldest first. With --remove it drops
those that the flag names, and what only they have, and prints nothing.`,
		Example: `  orchestrator checkpoints job-1
  orchestrator checkpoints job-1 --remove 4f0c…`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				if len(remove) > 0 {
					return removeCheckpoints(cmd.Context(), sandbox, remove)
				}
				return a.checkpoints(cmd.Context(), sandbox)
			})
		},
	}
	cmd.Flags().StringArrayVar(&remove, "remove", nil, "remove the checkpoint `CHECKPOINT`; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("remove", func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 { // whose checkpoints is not known yet
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeCheckpoints(1)(cmd, args, typed)
	})
	return cmd
}

// removeCheckpoints removes each that is there; the errors of the others are joined. A wrong id removes none.
func removeCheckpoints(ctx context.Context, sandbox *launcher.Sandbox, texts []string) error {
	ids := make([]checkpoint.ID, len(texts))
	for i, text := range texts {
		id, err := checkpoint.ParseID(text)
		if err != nil {
			return err
		}
		ids[i] = id
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, sandbox.RemoveCheckpoint(ctx, id))
	}
	return errors.Join(errs...)
}

func (a *app) checkpoints(ctx context.Context, sandbox *launcher.Sandbox) error {
	list, err := sandbox.Checkpoints(ctx)
	if err != nil {
		return err
	}
	if a.json() {
		for _, c := range list {
			if err := render.JSON(a.out, newCheckpoint(c)); err != nil {
				return err
			}
		}
		return nil
	}
	const quoted = render.Terminal(true) // anything else would break the table
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CHECKPOINT\tAGE\tFILES\tSIZE\tSTORED\tNAME")
	for _, c := range list {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", c.ID, age(time.Since(c.Time)), c.Files, bytesText(c.Bytes), bytesText(c.Stored), quoted.Name(c.Name))
	}
	return table.Flush()
}

func restoreCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restore ID CHECKPOINT [PATH...]",
		Short: "Bring back a state of a sandbox's workdir",
		Long: `Restore makes the workdir of a sandbox what it was in a checkpoint, or the paths alone,
each with all that is below it. It makes a checkpoint of what is there first, and prints
the id of that: a restore of it undoes this one.

It removes only what is newer than the checkpoint. What the checkpoint excluded, protected
paths, and what commands change meanwhile stay as they are. Restore names what is not as
in the checkpoint, and then its status is 1.`,
		Example: `  orchestrator restore job-1 4f0c…
  orchestrator restore job-1 4f0c… src go.mod`,
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeCheckpoints(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.restore(cmd.Context(), sandbox, args[1], args[2:])
			})
		},
	}
}

func (a *app) restore(ctx context.Context, sandbox *launcher.Sandbox, text string, paths []string) error {
	id, err := checkpoint.ParseID(text)
	if err != nil {
		return err
	}
	done, err := sandbox.Restore(ctx, id, checkpoint.RestoreOptions{Paths: paths})
	if err != nil && !errors.Is(err, checkpoint.ErrIncomplete) {
		return err
	}
	if !a.json() {
		a.noteLeft("is not as in the checkpoint", done.Kept, done.MoreKept)
	}
	printErr := a.print(struct {
		Before   checkpointJSON `json:"before"`
		Changed  int64          `json:"changed"`
		Kept     []leftJSON     `json:"kept,omitempty"`
		MoreKept int64          `json:"more_kept,omitempty"`
	}{newCheckpoint(done.Before), done.Changed, newLeft(done.Kept), done.MoreKept}, string(done.Before.ID)+"\n")
	return errors.Join(printErr, err)
}

// completeCheckpoints completes the first argument to the ids of sandboxes, and so many after it to those of its
// checkpoints.
func (a *app) completeCheckpoints(count int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return a.completeIDs(false)(cmd, args, typed)
		}
		if len(args) > count {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		var ids []string
		_ = a.open(ctx, args[0], func(sandbox *launcher.Sandbox) error { // completion offers what it can
			list, err := sandbox.Checkpoints(ctx)
			for _, c := range list {
				ids = append(ids, string(c.ID))
			}
			return err
		})
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// checkpointJSON is a checkpoint as JSON.
type checkpointJSON struct {
	ID          checkpoint.ID `json:"id"`
	Name        string        `json:"name,omitempty"`
	Automatic   bool          `json:"automatic,omitempty"`
	Time        time.Time     `json:"time"`
	Files       int64         `json:"files"`
	Bytes       int64         `json:"bytes"`
	Stored      int64         `json:"stored_bytes"`
	LeftOut     []leftJSON    `json:"left_out,omitempty"`
	MoreLeftOut int64         `json:"more_left_out,omitempty"`
	Moving      []render.Text `json:"moving,omitempty"`
	MoreMoving  int64         `json:"more_moving,omitempty"`
}

type leftJSON struct {
	Path render.Text `json:"path"`
	Why  string      `json:"why"`
}

func newCheckpoint(c checkpoint.Checkpoint) checkpointJSON {
	j := checkpointJSON{c.ID, c.Name, c.Automatic, c.Time.UTC(), c.Files, c.Bytes, c.Stored, newLeft(c.LeftOut), c.MoreLeftOut, nil, c.MoreMoving}
	for _, path := range c.Moving {
		j.Moving = append(j.Moving, render.Text(path))
	}
	return j
}

func newLeft(list []checkpoint.LeftOut) (left []leftJSON) {
	for _, l := range list {
		left = append(left, leftJSON{render.Text(l.Path), l.Why})
	}
	return left
}
