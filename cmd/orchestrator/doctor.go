package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/launcher"
)

func doctorCommand(a *app) *cobra.Command {
	var flags podFlags
	var way egressFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that sandboxes need",
		Long: `Doctor checks the kubeconfig, the API server, the namespace, each permission that
sandboxes need, and the identity. Then it makes a sandbox as the flags say, runs a
command in it, and removes it again. For each check that fails, it says what to do.
With --pool, it also checks whether a pod of the pool waits and fits the flags.
With the local backend, it makes a sandbox on this machine, says what isolates it, and what
would do so better. With that of agent-sandbox, it
checks the resources, the warm pool that --pool names, and that a sandbox can be made.
With the remote backend, it checks the gateway, says whose the token is, and checks that a
sandbox can be made.
What a gateway needs is checked by "orchestrator gateway --check", with its flags.

The exit status is 1 if a check failed.`,
		Example: "  orchestrator doctor --namespace sandboxes --image registry.example.com/runtime:1",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pod, take, err := flags.build(a)
			if err != nil {
				return err
			}
			out, err := way.build(a)
			if err != nil {
				return err
			}
			return a.doctor(cmd.Context(), launcher.Spec{Egress: out, Pod: pod, Take: take})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	way.defineLaunch(cmd)
	flags.define(cmd)
	pool := pflag.NewFlagSet("pool", pflag.ContinueOnError)
	flags.definePoolName(pool)
	settings.MarkFor(pool, inKubernetes, inAgentSandbox, throughGateway)
	cmd.Flags().AddFlagSet(pool)
	return cmd
}

func (a *app) doctor(ctx context.Context, spec launcher.Spec) error {
	findings, err := a.findings(ctx, spec)
	if err != nil {
		return err
	}
	return a.printFindings(ctx, findings)
}

// printFindings prints findings as they come. Its error says how many checks failed.
func (a *app) printFindings(ctx context.Context, findings iter.Seq[launcher.Finding]) error {
	bad := 0
	for f := range findings {
		f.Err = a.marked(f.Err)
		if f.Verdict == launcher.Failed {
			bad++
		}
		if err := a.print(newFinding(f), a.findingText(f)); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bad > 0:
		return fmt.Errorf("checks that failed: %d", bad)
	}
	return nil
}

func (a *app) findings(ctx context.Context, spec launcher.Spec) (iter.Seq[launcher.Finding], error) {
	l, err := a.launcher()
	if err != nil {
		return nil, err
	}
	c, ok := l.(checker)
	if !ok {
		return nil, fmt.Errorf("the backend %s has no checks", a.backend.Value)
	}
	return c.Check(ctx, spec), nil
}

// A checker is a launcher that can say what works.
type checker interface {
	Check(ctx context.Context, spec launcher.Spec) iter.Seq[launcher.Finding]
}

// findingText returns the line of a check, and a line with the advice below it.
func (a *app) findingText(f launcher.Finding) string {
	const width = len(launcher.NotChecked)
	word := string(f.Verdict)
	if f.Verdict == launcher.Failed {
		word = "FAIL"
	}
	said := f.Detail
	if f.Err != nil {
		said = message(f.Err)
	}
	quoted := render.Terminal(true) // a check must stay on one line
	text := fmt.Sprintf("%-*s  %s: %s\n", width, word, f.Name, oneLine(said))
	if f.Advice != "" {
		text += fmt.Sprintf("%*s  %s\n", width, "", oneLine(f.Advice))
	}
	return string(quoted.Text([]byte(text)))
}

// oneLine returns a text from the cluster on one line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// finding is a check as JSON.
type finding struct {
	Check   string           `json:"check"`
	Verdict launcher.Verdict `json:"verdict"`
	Detail  string           `json:"detail,omitempty"`
	Error   string           `json:"error,omitempty"`
	Advice  string           `json:"advice,omitempty"`
}

func newFinding(f launcher.Finding) finding {
	out := finding{Check: f.Name, Verdict: f.Verdict, Detail: f.Detail, Advice: f.Advice}
	if f.Err != nil {
		out.Error = message(f.Err)
	}
	return out
}
