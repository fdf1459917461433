package launcher

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/keys"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// keyVersion is one of the keys of an identity. While they are rotated, an identity has several.
type keyVersion struct {
	podapi.Identity
	keys   keys.Set // what is derived from it
	number int
	// created is zero if it is not known, expires if the key never expires, and retiring if
	// it is not retiring.
	created, expires, retiring time.Time
}

func (v *keyVersion) fingerprint() string { return v.AuthorizedKey().Fingerprint() }

// ring has the versions of an identity, at least one. The first launches and signs: the
// newest that is neither due nor retiring, if there is one.
type ring []keyVersion

func newRing(versions []keyVersion) (ring, error) {
	r := slices.Clone(versions)
	for i := range r {
		var err error
		if r[i].keys, err = keys.Of(r[i].Identity); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(r, func(a, b keyVersion) int {
		return cmp.Or(cmp.Compare(a.decay(), b.decay()), cmp.Compare(b.number, a.number))
	})
	return r, nil
}

// decay orders versions: a good one is 0, one that is due 1, and one that is retiring 2.
func (v *keyVersion) decay() int {
	switch {
	case !v.retiring.IsZero():
		return 2
	case v.hasExpired():
		return 1
	}
	return 0
}

func (v *keyVersion) hasExpired() bool { return !v.expires.IsZero() && time.Now().After(v.expires) }

// accepted returns the versions that agents are to accept: those that are as good as the
// first. With the others, orchestrators still reach agents that have yet to hear of this.
func (r ring) accepted() ring {
	i := slices.IndexFunc(r, func(v keyVersion) bool { return v.decay() > r[0].decay() })
	if i < 0 {
		return r
	}
	return r[:i:i]
}

// authorized returns the public halves.
func (r ring) authorized() (list []wire.AuthorizedKey) {
	for _, v := range r {
		list = append(list, v.AuthorizedKey())
	}
	return list
}

// of returns the first version whose fingerprint is one of these, or nil.
func (r ring) of(fingerprints ...string) *keyVersion {
	for i := range r {
		if slices.Contains(fingerprints, r[i].fingerprint()) {
			return &r[i]
		}
	}
	return nil
}

// identities gives the present ring. Another orchestrator may rotate it.
type identities struct {
	// begin makes the identity if there is none, read does not.
	begin, read func(context.Context) (ring, error)

	reading chan struct{} // has an element while it is read
	mu      sync.Mutex
	ring    ring
	at      time.Time // when it began to be read
}

func newIdentities(begin, read func(context.Context) (ring, error)) *identities {
	return &identities{begin: begin, read: read, reading: make(chan struct{}, 1)}
}

// now returns the ring as it was last read, at least once.
func (i *identities) now() ring {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ring
}

// fresh returns the ring as it was at most this long ago. With an error it returns what is
// known.
func (i *identities) fresh(ctx context.Context, age time.Duration) (ring, error) {
	asked := time.Now()
	select {
	case i.reading <- struct{}{}:
		defer func() { <-i.reading }()
	case <-ctx.Done():
		return i.now(), context.Cause(ctx)
	}
	if i.isFresh(asked, age) {
		return i.now(), nil
	}
	return i.readAgain(ctx)
}

// isFresh reports whether the ring is at most this old, or was read for another caller since
// this one asked: of many that wait for a slow answer, each would read it again otherwise.
func (i *identities) isFresh(asked time.Time, age time.Duration) bool {
	since := time.Since(i.at)
	return since < age || i.at.After(asked) && since < ringAge
}

func (i *identities) readAgain(ctx context.Context) (ring, error) {
	at := time.Now() // what changes while it is read may be missing
	read := i.read
	if i.now() == nil {
		read = i.begin
	}
	r, err := read(ctx)
	if err != nil {
		return i.now(), err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ring, i.at = r, at
	return r, nil
}

// fingerprint is that of the newest version of our identity.
func (c *cluster) fingerprint() string { return c.identities.now()[0].fingerprint() }

// versionOf returns the version of our identity with one of these fingerprints. If there is
// none, another orchestrator may just have made it.
func (c *cluster) versionOf(ctx context.Context, fingerprints ...string) (*keyVersion, error) {
	if v := c.identities.now().of(fingerprints...); v != nil {
		return v, nil
	}
	r, err := c.identities.fresh(ctx, retryAge)
	if v := r.of(fingerprints...); v != nil {
		return v, nil
	}
	return nil, cmp.Or(err, keys.ErrForeign)
}

// callerOf returns the identity that calls the agent of a pod: the newest version of ours
// that it accepts, as the pod says, or another that the agent itself names.
func (c *cluster) callerOf(pod *corev1.Pod) podapi.Identity {
	r := c.identities.now()
	v := r.of(acceptedBy(pod)...)
	if v == nil {
		v = &r[0]
	}
	return v.WithOthers(func(ctx context.Context) (list []podapi.Identity, err error) {
		r, err := c.identities.fresh(ctx, retryAge)
		for _, v := range r {
			list = append(list, v.Identity)
		}
		return list, err
	})
}

// fingerprints returns those of keys, as podmeta.AnnotationKey has them.
func fingerprints(keys []wire.AuthorizedKey) string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.Fingerprint()
	}
	return strings.Join(list, ",")
}

// keysText returns keys as an agent takes them.
func keysText(keys []wire.AuthorizedKey) string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.String()
	}
	return strings.Join(list, ",")
}
