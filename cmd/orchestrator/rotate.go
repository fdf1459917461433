package main

import (
	"cmp"
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
		Long: `List prints the keys of the identity. The first launches sandboxes: the newest that is
neither due nor retiring.`,
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
launched again. Then retire the older key: until then anyone who has it may call.

Changing an identity in a Secret takes the permissions of
deploy/identity-rotation-rbac.yaml.`,
		Example: `  orchestrator identity rotate --expires 2160h
  orchestrator identity retire 1`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.rotate(cmd.Context(), time.Duration(lasts)) },
	}
	c.Flags().Var(&lasts, "expires", "the new key is due after this `DURATION`: then launches make no use of it any more, unless there is no other, and doctor warns (default never)")
	return c
}

func retireCommand(a *app) *cobra.Command {
	onlyHere := false
	c := &cobra.Command{
		Use:   "retire VERSION",
		Short: "End an older key",
		Long: `Retire ends an older key of the identity. From now on, orchestrators that read the
identity do not use it. Some 40 seconds later, when all of them have noticed, the agents of
all sandboxes in the namespace stop accepting it; its calls under way have a minute to end.
The newest key signs what the older one has signed. Then the older key is deleted. If any of
this fails, or sandboxes of other namespaces need the key, it stays retiring until you repeat
the command.

Retire looks for sandboxes of all namespaces, which takes the permission to list them. It
knows nothing of other clusters: if the same file serves sandboxes there, rotate there first.

Anyone who has a retired key, and may also change a pod's annotations, can make the agent
accept it again when its container starts again. So after a leak, launch important sandboxes
again.`,
		Example: "  orchestrator identity retire 1",
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := strconv.Atoi(args[0])
			if err != nil || version < 1 {
				return usagef("%q is not a version of the identity", args[0])
			}
			return a.retire(cmd.Context(), version, onlyHere)
		},
	}
	c.Flags().BoolVar(&onlyHere, "only-here", false, "do not look for sandboxes in other namespaces: there are none, or they may be lost")
	return c
}

// versionJSON is a key of the identity.
type versionJSON struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	Created string `json:"created,omitempty"`
	Expires string `json:"expires,omitempty"`
	// Retiring is when it began to retire.
	Retiring string `json:"retiring,omitempty"`
}

func versionOf(v launcher.IdentityVersion) versionJSON {
	return versionJSON{v.Version, v.Key, dateText(v.Created), dateText(v.Expires), dateText(v.Retiring)}
}

// changeJSON is a key that was made or retired.
type changeJSON struct {
	versionJSON
	Sandboxes int `json:"sandboxes"` // that were told
	Others    int `json:"others"`    // of other identities
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
	fmt.Fprintln(table, "VERSION\tKEY\tCREATED\tEXPIRES\tRETIRING")
	for _, v := range versions {
		j := versionOf(v)
		list = append(list, j)
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", j.Version, j.Key, j.Created, j.Expires, j.Retiring)
	}
	table.Flush()
	return a.print(list, text.String())
}

func (a *app) rotate(ctx context.Context, lasts time.Duration) error {
	k, err := a.pods("identity rotate")
	if err != nil {
		return err
	}
	change, err := k.RotateIdentity(ctx, lasts)
	if change.Version == 0 {
		return err
	}
	return cmp.Or(a.printChange(change, "is there"), err)
}

func (a *app) retire(ctx context.Context, version int, onlyHere bool) error {
	k, err := a.pods("identity retire")
	if err != nil {
		return err
	}
	change, err := k.RetireIdentity(ctx, version, onlyHere)
	if err != nil {
		return err
	}
	return a.printChange(change, "is retired")
}

func (a *app) printChange(change launcher.IdentityVersion, became string) error {
	if change.Sandboxes == 0 && change.Others > 0 {
		a.note("all %d sandboxes in the namespace are of other identities: see --identity-secret", change.Others)
	}
	j := changeJSON{versionOf(change), change.Sandboxes, change.Others}
	return a.print(j, fmt.Sprintf("version %d %s: %s (sandboxes: %d)\n", j.Version, became, j.Key, j.Sandboxes))
}
