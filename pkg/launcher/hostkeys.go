package launcher

import (
	"context"
	"crypto/ed25519"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
)

// HostKeys returns the host keys of SSH servers for the sandboxes: one of each key of the identity, by
// HKDF-SHA256. Serve with the first, and let clients accept all: a rotation has several.
func (k *Kubernetes) HostKeys(ctx context.Context) ([]ed25519.PrivateKey, error) {
	return k.derived(ctx, keys.Host)
}

// GatewayHostKeys is HostKeys for the gateways that serve SSH.
func (k *Kubernetes) GatewayHostKeys(ctx context.Context) ([]ed25519.PrivateKey, error) {
	return k.derived(ctx, keys.GatewayHost)
}

func (k *Kubernetes) derived(ctx context.Context, purpose keys.Purpose) ([]ed25519.PrivateKey, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, err
	}
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return nil, err
	}
	list := make([]ed25519.PrivateKey, len(r))
	for i, v := range r {
		seed, err := keys.Derive(v.Identity, purpose)
		if err != nil {
			return nil, err
		}
		list[i] = ed25519.NewKeyFromSeed(seed)
	}
	return list, nil
}
