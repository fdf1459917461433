package launcher

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
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

// beatLease says which pods one launcher needs, in parts of at most maxBeats pods. Each part is a
// Lease.
type beatLease struct {
	*cluster
	name     string
	versions map[int]string // the resourceVersions of the parts that there are, perhaps
}

func newBeatLease(c *cluster) *beatLease {
	return &beatLease{cluster: c, name: "heartbeats." + strings.ToLower(rand.Text()[:12]), versions: map[int]string{}}
}

// write says that the pods with these UIDs, and no others, are needed now.
func (b *beatLease) write(ctx context.Context, parts map[int][]string, now time.Time) error {
	if len(b.versions) == 0 && len(parts) > 0 {
		b.sweep(ctx, now)
	}
	for part, uids := range parts {
		if err := b.writePart(ctx, part, uids, now); err != nil {
			return err
		}
	}
	for part := range b.versions {
		if parts[part] != nil {
			continue
		}
		if err := b.leases().Delete(ctx, b.nameOf(part), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		delete(b.versions, part)
	}
	return nil
}

func (b *beatLease) nameOf(part int) string { return fmt.Sprintf("%s.%d", b.name, part) }

// writePart writes one of the Leases, whatever others have made of it.
func (b *beatLease) writePart(ctx context.Context, part int, uids []string, now time.Time) error {
	lease := b.lease(b.nameOf(part), uids, now)
	lease.ResourceVersion = b.versions[part]
	b.versions[part] = lease.ResourceVersion // there may be one, even if the answer is lost
	for try := 1; ; try++ {
		written, err := b.put(ctx, lease)
		switch {
		case err == nil:
			b.versions[part] = written.ResourceVersion
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
	err := b.eachBeatLease(ctx, func(lease *coordinationv1.Lease) {
		if lease.Spec.RenewTime == nil || now.Sub(lease.Spec.RenewTime.Time) > leftBeats {
			only := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
			_ = b.leases().Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &only})
		}
	})
	if err != nil {
		b.log.Debug("cannot remove old Leases of heartbeats", "error", err)
	}
}

// eachBeatLease calls do with each Lease of heartbeats in the namespace. Somebody may have made
// many, and each may be large, so it holds a few at a time.
func (c *cluster) eachBeatLease(ctx context.Context, do func(*coordinationv1.Lease)) error {
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.leases().List(ctx, opts)
	}))
	list.PageSize, list.PageBufferSize = beatPage, 1
	return list.EachListItem(ctx, metav1.ListOptions{LabelSelector: leasesOfHeartbeats}, func(o runtime.Object) error {
		do(o.(*coordinationv1.Lease))
		return nil
	})
}

// heartbeats are the latest ones of pods in Leases, by the pods' UIDs.
type heartbeats map[types.UID]time.Time

// heartbeats reads what the Leases of all launchers say of these pods.
func (c *cluster) heartbeats(ctx context.Context, pods ...corev1.Pod) (heartbeats, error) {
	beats := make(heartbeats, len(pods))
	for i := range pods {
		beats[pods[i].UID] = time.Time{}
	}
	err := c.eachBeatLease(ctx, func(lease *coordinationv1.Lease) {
		if lease.Spec.RenewTime == nil {
			return
		}
		beat := lease.Spec.RenewTime.UTC()
		for uid := range strings.SplitSeq(lease.Annotations[podmeta.AnnotationPods], ",") {
			if before, known := beats[types.UID(uid)]; known && beat.After(before) {
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
func (b heartbeats) of(pod *corev1.Pod) time.Time { return latest(heartbeatOf(pod), b[pod.UID]) }

// freshHeartbeats are read again when they are beatAge old.
type freshHeartbeats struct {
	*cluster
	pods []corev1.Pod

	mu    sync.Mutex
	beats heartbeats
	read  time.Time
}

// now returns the heartbeats as they were beatAge ago, or later.
func (f *freshHeartbeats) now(ctx context.Context) (heartbeats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.beats != nil && time.Since(f.read) < beatAge {
		return f.beats, nil
	}
	begun := time.Now()
	beats, err := f.heartbeats(ctx, f.pods...)
	if err != nil {
		return nil, fmt.Errorf("cannot learn the heartbeats (deploy/reaper.yaml has the permissions): %w", err)
	}
	f.beats, f.read = beats, begun
	return beats, nil
}
