package gateway

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/podagent/podagent/internal/reread"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// tenantEgress is what there is about a tenant whose sandboxes are let out.
type tenantEgress struct {
	name string
	open int // connections

	last  *egressPolicy // what was found last
	asked time.Time     // when that was
	told  time.Time     // when the tenant's policy could last be told

	values   map[string]*reread.File // of credentials, by their paths
	troubles map[string]string       // what was last wrong with a credential, by its name
	wrong    string                  // what was last wrong with the policy
}

// egressPolicy is an Egress as far ends need it. It does not change.
type egressPolicy struct {
	allow       []egress.Rule
	require     wayout.Level
	connections int
	text        string // which another policy does not have
	secrets     []egress.Secret
	credentials string // as text is, of the secrets
}

// policy returns what the tenant's sandboxes may reach now; nil if they are not let out. While that
// cannot be told, it is what it was for a while.
func (t *tenantEgress) policy(ctx context.Context, g *Gateway) *egressPolicy {
	now := time.Now()
	if !t.asked.IsZero() && now.Sub(t.asked) < egressInterval/2 {
		return t.last
	}
	t.asked = now
	policy, err := g.Tenants.Policy(ctx, t.name)
	switch {
	case err != nil && now.Sub(t.told) < untoldTime:
		return t.last
	case err != nil:
		t.last = nil
		return nil
	}
	t.told = now
	var next *egressPolicy
	if t.isUsable(ctx, g, policy.Egress) {
		next = newEgressPolicy(policy.Egress)
	}
	if next != nil {
		next.secrets = t.secrets(ctx, g, policy.Egress.Credentials)
		next.credentials = digestOfSecrets(next.secrets)
	}
	if next == nil || t.last == nil || t.last.text != next.text || t.last.credentials != next.credentials {
		t.last = next
	}
	return t.last
}

// isUsable reports whether a policy has no mistakes. One with some, of Tenants that do not check theirs, lets
// nobody out, which is logged when it is new.
func (t *tenantEgress) isUsable(ctx context.Context, g *Gateway, e *Egress) bool {
	wrong := ""
	if err := e.check(); err != nil {
		wrong = err.Error()
	}
	if wrong != t.wrong && wrong != "" {
		g.Log.ErrorContext(ctx, "no sandbox of a tenant is let out: its egress has a mistake", "tenant", t.name, "error", wrong)
	}
	t.wrong = wrong
	return wrong == ""
}

func newEgressPolicy(e *Egress) *egressPolicy {
	if e == nil {
		return nil
	}
	p := &egressPolicy{allow: e.AllowHosts, require: e.Require, connections: cmp.Or(e.Connections, defaultEgressConnections)}
	var text strings.Builder
	fmt.Fprintln(&text, p.require, p.connections)
	for _, r := range e.AllowHosts {
		fmt.Fprintln(&text, r)
	}
	p.text = text.String()
	return p
}
