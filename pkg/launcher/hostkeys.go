package launcher

import (
	"context"
	"crypto/ed25519"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
)

// HostKeys returns host keys for SSH, of the identity's keys. Use the first.
func (k *Kubernetes) HostKeys(ctx context.Context) ([]ed25519.PrivateKey, error) {
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
		seed, err := keys.Derive(v.Identity, keys.Host)
		if err != nil {
			return nil, err
		}
		list[i] = ed25519.NewKeyFromSeed(seed)
	}
	return list, nil
}
