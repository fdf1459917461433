package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/pool"
)

func poolCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "pool",
		Short: "Keep pods ready for new sandboxes",
		Long: `A pool is a Deployment of pods that run the agent and belong to no sandbox. With --pool, a
new sandbox takes a pod out of it, if one fits its flags, and the cluster makes the next.
What cannot change in a running pod must match the flags: the image, workdir, volumes,
limits, profile and the like. The environment, protected paths, labels, annotations,
lifetime, idle time and deadline are the sandbox's own. With --keep-workspace each pod has a
claim, which its sandbox keeps: see pause and resume.

These verbs need the permissions of deploy/pools-rbac.yaml.`,
		Args: noSuchVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(createPoolCommand(a), listPoolsCommand(a), describePoolCommand(a), scalePoolCommand(a), removePoolCommand(a))
	return c
}

func createPoolCommand(a *app) *cobra.Command {
	var flags podFlags
	var workdir string
	var way egressFlags
	size := 1
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a pool, or change one",
		Long: `Create makes a pool whose pods are as the flags say. If the pool exists, it changes it: the
cluster replaces the pods that wait, and sandboxes keep theirs. It does not wait for the
pods: see "orchestrator pool describe".

The pods accept the keys that the identity has now. After a key was retired, repeat the
command with the same flags: without --size the pool gets one pod.`,
		Example: `  orchestrator pool create small --size 5 --image registry.example.com/runtime:1
  orchestrator up job-1 --pool small --image registry.example.com/runtime:1`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.pods("pool create")
			if err != nil {
				return err
			}
			pod, _, err := flags.build(a)
			if err != nil {
				return err
			}
			out, err := way.build(a)
			if err != nil {
				return err
			}
			return poolError(pool.Create(cmd.Context(), k, args[0], size, launcher.Spec{Workdir: workdir, Egress: out, Pod: pod}))
		},
		ValidArgsFunction: a.completePools,
	}
	c.Flags().IntVar(&size, "size", size, "how many pods wait for sandboxes")
	c.Flags().StringVarP(&workdir, "workdir", "w", "", "the absolute `DIR` where relative paths start in a new sandbox (default a directory of its own)")
	settings.Mark(c.Flags(), "workdir")
	way.defineLaunch(c)
	flags.definePool(c)
	return c
}

func listPoolsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the pools",
		Args:              takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := a.pods("pool list")
			if err != nil {
				return err
			}
			pools, err := pool.List(cmd.Context(), k)
			if err != nil {
				return poolError(err)
			}
			return a.printPools(pools)
		},
	}
}

func (a *app) printPools(pools []pool.Pool) error {
	if a.json() {
		for _, p := range pools {
			if err := render.JSON(a.out, poolJSON(p)); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tSIZE\tREADY\tAGE\tIMAGE")
	for _, p := range pools {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\n", p.Name, p.Size, p.Ready, age(time.Since(p.CreatedAt)), render.Terminal(true).Name(p.Image))
	}
	return table.Flush()
}

// poolJSON is a pool as JSON.
type poolJSON struct {
	Name      string    `json:"name"`
	Size      int       `json:"size"`
	Ready     int       `json:"ready"`
	Image     string    `json:"image"`
	CreatedAt time.Time `json:"created_at"`
}

func scalePoolCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "scale NAME SIZE",
		Short: "Change how many pods wait",
		Args:  takes(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := strconv.Atoi(args[1])
			if err != nil {
				return usagef("the size of a pool is a number, not %q", args[1])
			}
			k, err := a.pods("pool scale")
			if err != nil {
				return err
			}
			return poolError(pool.Scale(cmd.Context(), k, args[0], size))
		},
		ValidArgsFunction: a.completePools,
	}
}

func removePoolCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a pool with the pods that wait in it",
		Args:  takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.pods("pool rm")
			if err != nil {
				return err
			}
			return poolError(pool.Delete(cmd.Context(), k, args[0]))
		},
		ValidArgsFunction: a.completePools,
	}
}

// poolError marks an error as one of the launcher.
func poolError(err error) error {
	if err == nil {
		return nil
	}
	return &sandboxError{launching: true, err: err}
}

// completePools completes the first argument to the names of pools.
func (a *app) completePools(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	k, err := a.pods("pool")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	pools, _ := pool.List(ctx, k) // completion offers what it can
	for _, p := range pools {
		names = append(names, p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
