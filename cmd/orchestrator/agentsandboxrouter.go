package main

import (
	"context"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/agentsandbox"
)

// faces returns the faces that a gateway serves.
func (o *gatewayFlags) faces(ctx context.Context, a *app) ([]gateway.Face, error) {
	faces, err := o.e2b.faces()
	if err != nil || !o.router {
		return faces, err
	}
	router := &agentsandbox.Face{}
	if a.backend.Value != onThisHost {
		k, err := a.kubernetes()
		if err != nil {
			return nil, err
		}
		if _, router.Namespace, err = k.API(ctx); err != nil {
			return nil, err
		}
	}
	return append(faces, router), nil
}
