package launcher

import (
	"context"
	"crypto/ed25519"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
)

// HostKeys returns the host keys of SSH servers for the sandboxes, at least one. Serve with the
// first, and let clients accept all: while the identity is rotated it has several keys, and other
// orchestrators may still take another for the first.
//
// Each is derived from one key of the identity, by HKDF-SHA256 with a label of its own (keys.Host),
// and is therefore the same on all machines that share the identity, and tells nothing about it.
//
// The error is that of the cluster's configuration, if there is none, or that of reading the
// identity, which is made on first use.
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
