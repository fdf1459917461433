package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/pkg/launcher"
)

// LabelTenant is the label of a SandboxTemplate's pods that says whose the Sandboxes are which clients of
// agent-sandbox make from it. Who may write templates gives them to a tenant.
const LabelTenant = "gateway.podagent.dev/tenant"

// opensTheirs is a launcher that also opens the Sandboxes which other clients of agent-sandbox have made.
type opensTheirs interface {
	// OpenTheirs opens the Sandbox of this name, and of this UID unless that is empty, if its pods' labels
	// say that it is the caller's. Otherwise it is launcher.ErrNotFound.
	OpenTheirs(ctx context.Context, name, uid string, mine func(labels map[string]string) bool) (*launcher.Sandbox, error)
}

// theirs says whether a name may also be that of a Sandbox which another client of agent-sandbox has made.
type theirs struct {
	allowed bool
	uid     string // only the Sandbox of this UID; "" for any
}

// AlsoTheirs lets the names that follow also be those of Sandboxes which clients of agent-sandbox have made
// from a template whose LabelTenant is the call's tenant. A sandbox of the tenant's own comes first. With a
// uid, only the Sandbox of this UID is meant.
func (c *Call) AlsoTheirs(uid string) { c.theirs = theirs{true, uid} }

// check refuses what is no name.
func (t theirs) check(name string) error {
	if t.allowed {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%.64q is no name of a sandbox: %s", name, problems[0])
		}
		return nil
	}
	return CheckName(name)
}

// theirSeparator is in the ids by which the gateway holds what may be theirs: no launcher's id has it.
const theirSeparator = separator + separator

// id is that by which the gateway holds a sandbox.
func (t theirs) id(tenant, name string) string {
	if !t.allowed {
		return launcherID(tenant, name)
	}
	return tenant + theirSeparator + name + theirSeparator + t.uid
}

// theirsOf is the other id by which the gateway holds a sandbox of a tenant's own.
func theirsOf(id string) string {
	tenant, name, _ := strings.Cut(id, separator)
	return theirs{allowed: true}.id(tenant, name)
}

// parseTheirs takes apart an id of what may be theirs.
func parseTheirs(id string) (tenant, name, uid string, ok bool) {
	tenant, rest, ok := strings.Cut(id, theirSeparator)
	name, uid, _ = strings.Cut(rest, theirSeparator)
	return tenant, name, uid, ok
}

// openTheirs opens the tenant's own sandbox of a name, or else the Sandbox of that name that is the tenant's.
func (g *Gateway) openTheirs(ctx context.Context, tenant, name, uid string, wake bool) (*launcher.Sandbox, error) {
	err := launcher.ErrNotFound
	if uid == "" && CheckName(name) == nil {
		s, own := g.openOwn(ctx, launcherID(tenant, name), wake)
		if !errors.Is(own, launcher.ErrNotFound) {
			return s, own
		}
		err = own
	}
	l, ok := g.Launcher.(opensTheirs)
	if !ok {
		return nil, err
	}
	return l.OpenTheirs(ctx, name, uid, func(labels map[string]string) bool { return labels[LabelTenant] == tenant })
}
