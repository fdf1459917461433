package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

func identityCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "identity",
		Short: "Replace the keys of the identity, and sign pods with it",
		Long: `The identity is the key that agents accept, and that signs how the pod of a paused
sandbox is made. Rotate makes a new key, and retire ends an older one. In between, agents
accept both, and other orchestrators learn of the new one by themselves.`,
		Args: noSuchVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(listIdentityCommand(a), rotateCommand(a), retireCommand(a), adoptCommand(a))
	return c
}

func adoptCommand(a *app) *cobra.Command {
	var digest string
	c := &cobra.Command{
		Use:   "adopt ID",
		Short: "Look at the pod of a paused sandbox, and sign it",
		Long: `Adopt prints the pod that resume would make of a sandbox with a claim of its own, and
the digest of what the claim says. Resume refuses to make it if this identity has not
signed it: because the claim is of a version that signed nothing, or because somebody
has changed it. Anyone who may change claims can have written it, so look at the pod:
its images, account, volumes, commands and variables. If it is what you want, repeat the
command with --accept and the digest. Then it is signed, unless the claim has changed
since.

Adopt never signs a pod that breaks its profile (restricted or baseline), that
another identity launched, or that is not this sandbox's. If this identity has sealed
the environment of commands, adopt prints only its names. Otherwise it prints the
values, too: the writer of the claim chose them. Instead of signing, you can launch the
sandbox again with "orchestrator up" and your flags: that keeps the files, too.`,
		Example: `  orchestrator identity adopt job-1
  orchestrator identity adopt job-1 --accept 5a1f0c…`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.adopt(cmd.Context(), args[0], digest, cmd.Flags().Changed("accept"))
		},
	}
	c.Flags().StringVar(&digest, "accept", "", "sign the pod that was printed with this `DIGEST`")
	return c
}

func (a *app) adopt(ctx context.Context, id, digest string, sign bool) error {
	k, err := a.pods("identity adopt")
	if err != nil {
		return err
	}
	if sign {
		if err := k.SignNote(ctx, id, digest); err != nil {
			return &sandboxError{id: id, launching: true, err: err}
		}
		return nil
	}
	pod, digest, sealed, err := k.NotedPod(ctx, id)
	if err != nil {
		return &sandboxError{id: id, launching: true, err: err}
	}
	showEnvironment(pod, sealed)
	return a.printNoted(id, digest, pod)
}

// printNoted prints the pod that a person is to accept.
func (a *app) printNoted(id, digest string, pod *corev1.Pod) error {
	text, err := yaml.Marshal(pod)
	if err != nil {
		return err
	}
	const quoted = render.Terminal(true) // nothing in it may hide the rest, wherever it is read
	err = a.print(struct {
		ID     string      `json:"id"`
		Digest string      `json:"digest"`
		Pod    *corev1.Pod `json:"pod"`
	}{id, digest, pod}, string(quoted.Text(text)))
	if err == nil {
		a.note("nothing is signed yet: if this pod is what you want, \"orchestrator identity adopt %s --accept %s\" signs it", quote(id), digest)
	}
	return err
}

// showEnvironment makes the environment of commands readable. If it is sealed in the claim,
// only the names are left. Otherwise everybody can read it there, and may have written it.
func showEnvironment(pod *corev1.Pod, sealed bool) {
	for _, c := range pod.Spec.Containers {
		for i, v := range c.Env {
			if v.Name != "PODAGENT_PROCESS_ENV" || v.Value == "" {
				continue
			}
			env, err := wire.ParseEnv(v.Value)
			if err != nil {
				continue // the agent refuses it, too
			}
			if !sealed {
				c.Env[i].Value = fmt.Sprintf("(open: %q)", env)
				continue
			}
			for i := range env {
				env[i], _, _ = strings.Cut(env[i], "=")
			}
			c.Env[i].Value = fmt.Sprintf("(the values of %s)", strings.Join(env, ", "))
		}
	}
}
