package launcher

import "context"

// CreatePod creates the pod of a sandbox, as the beginning of a launch does,
// and returns what a launch does with it that then fails.
func (k *Kubernetes) CreatePod(ctx context.Context, spec Spec) (abandon func(context.Context) error, err error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, err
	}
	made, err := c.create(ctx, &spec)
	return func(ctx context.Context) error { return c.abandon(ctx, made.pod) }, err
}

// What the tests of names and identities call.
var (
	NameOf       = nameOf
	LabelOf      = labelOf
	IdentityFile = identityFile
)

// CurrentKey returns the public half of the newest version.
func CurrentKey(r ring) string { return r[0].AuthorizedKey().String() }
