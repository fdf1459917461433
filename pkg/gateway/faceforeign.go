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

// foreignOpener is a launcher that also opens the Sandboxes which other clients of agent-sandbox have made.
type foreignOpener interface {
	// OpenForeign opens the Sandbox of this name, and of this UID unless that is empty, if its pods' labels
	// say that it is the caller's. Otherwise it is launcher.ErrNotFound.
	OpenForeign(ctx context.Context, name, uid string, mine func(labels map[string]string) bool) (*launcher.Sandbox, error)
}

// foreign says whether a name may also be that of a Sandbox which another client of agent-sandbox has made.
type foreign struct {
	allowed bool
	uid     string // only the Sandbox of this UID; "" for any
}

// AllowForeign lets the names that follow also be those of Sandboxes which clients of agent-sandbox have made
// from a template whose LabelTenant is the call's tenant. A sandbox of the tenant's own comes first. With a
// uid, only the Sandbox of this UID is meant.
func (c *Call) AllowForeign(uid string) { c.foreign = foreign{true, uid} }

// check refuses what is no name.
func (f foreign) check(name string) error {
	if f.allowed {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%.64q is no name of a sandbox: %s", name, problems[0])
		}
		return nil
	}
	return CheckName(name)
}

// foreignSeparator is in the ids by which the gateway holds what may be foreign: no launcher's id has it.
const foreignSeparator = separator + separator

// id is that by which the gateway holds a sandbox.
func (f foreign) id(tenant, name string) string {
	if !f.allowed {
		return launcherID(tenant, name)
	}
	return tenant + foreignSeparator + name + foreignSeparator + f.uid
}

// foreignIDOf is the other id by which the gateway holds a sandbox of a tenant's own.
func foreignIDOf(id string) string {
	tenant, name, _ := strings.Cut(id, separator)
	return foreign{allowed: true}.id(tenant, name)
}

// parseForeign takes apart an id of what may be foreign.
func parseForeign(id string) (tenant, name, uid string, ok bool) {
	tenant, rest, ok := strings.Cut(id, foreignSeparator)
	name, uid, _ = strings.Cut(rest, foreignSeparator)
	return tenant, name, uid, ok
}

// openOwnOrForeign opens the tenant's own sandbox of a name, or else the Sandbox of that name that is the tenant's.
func (g *Gateway) openOwnOrForeign(ctx context.Context, tenant, name, uid string, wake bool) (*launcher.Sandbox, error) {
	err := launcher.ErrNotFound
	if uid == "" && CheckName(name) == nil {
		s, own := g.openOwn(ctx, launcherID(tenant, name), wake)
		if !errors.Is(own, launcher.ErrNotFound) {
			return s, own
		}
		err = own
	}
	l, ok := g.Launcher.(foreignOpener)
	if !ok {
		return nil, err
	}
	return l.OpenForeign(ctx, name, uid, func(labels map[string]string) bool { return tenant != "" && labels[LabelTenant] == tenant })
}
