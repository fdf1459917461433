package launcher

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// leasesOfHeartbeats selects the Leases of heartbeats.
var leasesOfHeartbeats = labels.Set{podmeta.LabelManagedBy: podmeta.ManagedBy, podmeta.LabelHeartbeats: podmeta.OfPods}.String()

// beatLease says which pods one launcher needs, in a Lease for each maxBeats of them.
type beatLease struct {
	*cluster
	name     string
	versions []string // the resourceVersions of the Leases that there are
}

func newBeatLease(c *cluster) *beatLease {
	return &beatLease{cluster: c, name: "heartbeats." + strings.ToLower(rand.Text()[:12])}
}

// write says that these pods, and no others, are needed now.
func (b *beatLease) write(ctx context.Context, uids []string, now time.Time) error {
	if len(b.versions) == 0 && len(uids) > 0 {
		b.sweep(ctx, now)
	}
	parts := 0
	for ; parts*maxBeats < len(uids); parts++ {
		if err := b.writePart(ctx, parts, uids[parts*maxBeats:min((parts+1)*maxBeats, len(uids))], now); err != nil {
			return err
		}
	}
	for last := len(b.versions) - 1; last >= parts; last-- {
		if err := b.leases().Delete(ctx, b.part(last), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		b.versions = b.versions[:last]
	}
	return nil
}

// part names one of the Leases.
func (b *beatLease) part(i int) string { return fmt.Sprintf("%s.%d", b.name, i) }

// writePart writes one of the Leases, whatever others have made of it.
func (b *beatLease) writePart(ctx context.Context, i int, uids []string, now time.Time) error {
	if i == len(b.versions) {
		b.versions = append(b.versions, "")
	}
	lease := b.lease(b.part(i), uids, now)
	lease.ResourceVersion = b.versions[i]
	for try := 1; ; try++ {
		written, err := b.put(ctx, lease)
		switch {
		case err == nil:
			b.versions[i] = written.ResourceVersion
			return nil
		case try == beatTries || !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return err
		}
		if lease.ResourceVersion, err = b.version(ctx, lease.Name); err != nil {
			return err
		}
	}
}

// lease returns a Lease that says that these pods are needed now.
func (b *beatLease) lease(name string, uids []string, now time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy, podmeta.LabelHeartbeats: podmeta.OfPods},
			Annotations: map[string]string{podmeta.AnnotationPods: strings.Join(uids, ",")},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &b.owner, RenewTime: &metav1.MicroTime{Time: now}},
	}
}

// put creates the Lease, or updates the version that it has.
func (b *beatLease) put(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if lease.ResourceVersion == "" {
		return b.leases().Create(ctx, lease, metav1.CreateOptions{})
	}
	return b.leases().Update(ctx, lease, metav1.UpdateOptions{})
}

// version returns the resourceVersion of a Lease; empty if there is none.
func (b *beatLease) version(ctx context.Context, name string) (string, error) {
	lease, err := b.leases().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return lease.ResourceVersion, nil
}

// sweep removes what launchers left that were killed. It is not worth an error.
func (b *beatLease) sweep(ctx context.Context, now time.Time) {
	_ = b.eachBeatLease(ctx, func(lease *coordinationv1.Lease) {
		if lease.Spec.RenewTime == nil || now.Sub(lease.Spec.RenewTime.Time) > leftBeats {
			only := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
			_ = b.leases().Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &only})
		}
	})
}

// eachBeatLease calls do with each Lease of heartbeats in the namespace.
func (c *cluster) eachBeatLease(ctx context.Context, do func(*coordinationv1.Lease)) error {
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.leases().List(ctx, opts)
	}))
	return list.EachListItem(ctx, metav1.ListOptions{LabelSelector: leasesOfHeartbeats}, func(o runtime.Object) error {
		do(o.(*coordinationv1.Lease))
		return nil
	})
}

// heartbeats are the latest ones of pods in Leases, by the pods' UIDs.
type heartbeats map[types.UID]time.Time

// heartbeats reads the Leases of all launchers.
func (c *cluster) heartbeats(ctx context.Context) (heartbeats, error) {
	beats := heartbeats{}
	err := c.eachBeatLease(ctx, func(lease *coordinationv1.Lease) {
		if lease.Spec.RenewTime == nil {
			return
		}
		for uid := range strings.SplitSeq(lease.Annotations[podmeta.AnnotationPods], ",") {
			if beat := lease.Spec.RenewTime.UTC(); beat.After(beats[types.UID(uid)]) {
				beats[types.UID(uid)] = beat
			}
		}
	})
	if isRefusal(err) {
		err = fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return beats, err
}

// of returns the last heartbeat of a pod: that of a Lease, or its own.
func (b heartbeats) of(pod *corev1.Pod) time.Time {
	own := heartbeatOf(pod)
	if leased := b[pod.UID]; leased.After(own) {
		return leased
	}
	return own
}
