package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/pkg/launcher"
)

func listIdentityCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the keys of the identity",
		Long: `List prints the keys of the identity. The first launches sandboxes: the newest, unless
that is due and another is not.`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listIdentity(cmd.Context()) },
	}
}

func rotateCommand(a *app) *cobra.Command {
	var lasts flagvalue.Period
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Make a new key, beside the older ones",
		Long: `Rotate makes a new key of the identity, and has the agents of all sandboxes in the
namespace accept it beside the older ones. Sandboxes stay open, and nothing has to be
launched again. Then retire the older key: until then whoever has it may call.

An identity in a Secret has each key in a Secret of its own. To make and delete them
takes the permissions of deploy/identity-rotation-rbac.yaml.`,
		Example: `  orchestrator identity rotate --expires 2160h
  orchestrator identity retire 1`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.rotate(cmd.Context(), time.Duration(lasts)) },
	}
	c.Flags().Var(&lasts, "expires", "the new key is due after this `DURATION`: then another launches, and doctor warns (default never)")
	return c
}

func retireCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "retire VERSION",
		Short: "End an older key",
		Long: `Retire ends an older key of the identity. The agents of all sandboxes in the namespace
stop to accept it: calls that are under way have a minute to end. What it has signed is
signed by the newest key. Then it is deleted. If any of this fails, or sandboxes of other
namespaces accept the key, it stays; the command can be repeated.

Whoever has a retired key, and may also change a pod's annotations, can have the agent
accept it again when its container starts again. So after a leak, launch what matters
again.`,
		Example: "  orchestrator identity retire 1",
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := strconv.Atoi(args[0])
			if err != nil || version < 1 {
				return usagef("%q is not a version of the identity", args[0])
			}
			return a.retire(cmd.Context(), version)
		},
	}
}

// versionJSON is a key of the identity.
type versionJSON struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	Created string `json:"created,omitempty"`
	Expires string `json:"expires,omitempty"`
}

func versionOf(v launcher.IdentityVersion) versionJSON {
	return versionJSON{v.Version, v.Key, dateText(v.Created), dateText(v.Expires)}
}

// dateText is empty for the zero time.
func dateText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (a *app) listIdentity(ctx context.Context) error {
	k, err := a.pods("identity list")
	if err != nil {
		return err
	}
	versions, err := k.IdentityVersions(ctx)
	if err != nil {
		return err
	}
	list := []versionJSON{}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VERSION\tKEY\tCREATED\tEXPIRES")
	for _, v := range versions {
		j := versionOf(v)
		list = append(list, j)
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", j.Version, j.Key, j.Created, j.Expires)
	}
	table.Flush()
	return a.print(list, text.String())
}

func (a *app) rotate(ctx context.Context, lasts time.Duration) error {
	k, err := a.pods("identity rotate")
	if err != nil {
		return err
	}
	v, err := k.RotateIdentity(ctx, lasts)
	if v.Version == 0 {
		return err
	}
	j := versionOf(v)
	if printed := a.print(j, fmt.Sprintf("version %d: %s\n", j.Version, j.Key)); printed != nil {
		return printed
	}
	return err
}

func (a *app) retire(ctx context.Context, version int) error {
	k, err := a.pods("identity retire")
	if err != nil {
		return err
	}
	return k.RetireIdentity(ctx, version)
}
