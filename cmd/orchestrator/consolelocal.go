package main

import (
	"context"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// everyLocal has the sandboxes of this machine in a gateway with one tenant, under their own ids: whoever made
// them, they are this user's.
type everyLocal struct{ local *launcher.Local }

// ofTenant begins the ids that the gateway has for its tenant's sandboxes.
const ofTenant = soleTenant + "."

// idOf returns the id on this machine of what the gateway calls its tenant's.
func idOf(gatewayID string) string { return strings.TrimPrefix(gatewayID, ofTenant) }

func (l everyLocal) Launch(ctx context.Context, spec launcher.Spec) (*launcher.Sandbox, error) {
	spec.ID = idOf(spec.ID)
	return l.local.Launch(ctx, spec)
}

func (l everyLocal) Open(ctx context.Context, id string) (*launcher.Sandbox, error) {
	return l.local.Open(ctx, idOf(id))
}

// List leaves out what the gateway has no name for.
func (l everyLocal) List(ctx context.Context) ([]launcher.Summary, error) {
	list, err := l.local.List(ctx)
	var named []launcher.Summary
	for _, s := range list {
		if gateway.CheckName(s.ID) == nil {
			s.ID = ofTenant + s.ID
			named = append(named, s)
		}
	}
	return named, err
}

func (l everyLocal) Find(ctx context.Context, id string) (launcher.Summary, error) {
	s, err := l.local.Find(ctx, idOf(id))
	s.ID = id
	return s, err
}

func (l everyLocal) Terminate(ctx context.Context, id string) error {
	return l.local.Terminate(ctx, idOf(id))
}
