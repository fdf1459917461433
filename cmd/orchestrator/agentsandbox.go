package main

import (
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
)

func agentSandboxCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "agent-sandbox",
		Short: "Print templates for agent-sandbox",
		Long: `With --backend agent-sandbox, the controller of https://github.com/kubernetes-sigs/agent-sandbox
makes the pods of sandboxes, from its v1beta1 resources. Each sandbox is a Sandbox object; or,
with --pool, a SandboxClaim on the SandboxWarmPool of that name.`,
		Args: noSuchVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(agentSandboxTemplateCommand(a))
	return c
}

func agentSandboxTemplateCommand(a *app) *cobra.Command {
	var flags podFlags
	var workdir string
	var way egressFlags
	size := 1
	c := &cobra.Command{
		Use:   "template NAME",
		Short: "Print a SandboxTemplate and a SandboxWarmPool",
		Long: `Template prints a SandboxTemplate and a SandboxWarmPool of this name, as YAML. Their pods are as
the flags say, and wait for sandboxes of this identity. A launch with --pool NAME sets the
rest: the environment, protected paths, labels, annotations, lifetime and idle time.

Each pod accepts the keys that the identity has now. After a key was retired, apply what the
same command prints then.`,
		Example: `  orchestrator agent-sandbox template small --size 5 --image registry.example.com/runtime:1 | kubectl apply -f -
  orchestrator up job-1 --backend agent-sandbox --pool small`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.kubernetes()
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
			text, err := (&agentsandbox.Launcher{Cluster: k}).Template(cmd.Context(), args[0], size, launcher.Spec{Workdir: workdir, Egress: out, Pod: pod})
			if err == nil {
				_, err = a.out.Write(text)
			}
			return poolError(err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().IntVar(&size, "size", size, "how many pods wait for sandboxes")
	c.Flags().StringVarP(&workdir, "workdir", "w", "", "the absolute `DIR` where relative paths start in a new sandbox (default a directory of its own)")
	settings.Mark(c.Flags(), "workdir")
	way.defineLaunch(c)
	flags.definePool(c)
	return c
}
