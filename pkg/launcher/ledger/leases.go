package ledger

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Leases keeps each text in an annotation of the Lease "ledger.NAME", which is changed under its
// resourceVersion. The Lease's time is that until which the text means anything. An empty text has
// no Lease; the first change of a process removes the Leases whose time is over, too.
type Leases struct {
	// Config reaches the API server, and Namespace holds the Leases: see launcher.Kubernetes.API.
	// It needs the permissions on Leases of deploy/rbac.yaml.
	Config    *rest.Config
	Namespace string

	once   sync.Once
	leases typed.LeaseInterface
	err    error
}

// pauses bounds how long a change waits before it tries again after another was first: as many as
// change the same text at once wait for different times.
const (
	firstPause = 5 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// Amend changes a text. It tries until no other change comes between, or ctx ends.
func (l *Leases) Amend(ctx context.Context, name string, change Change) error {
	if err := check(name); err != nil {
		return err
	}
	l.once.Do(func() { l.open(ctx) })
	err := l.err
	for most := firstPause; err == nil; most = min(2*most, mostPause) {
		var done bool
		if done, err = l.try(ctx, leaseName(name), change); done {
			return nil
		}
		if err == nil {
			err = delay.For(ctx, rand.N(most))
		}
	}
	return fmt.Errorf("changing the ledger %s: %w", name, err)
}

const leasePrefix = "ledger."

func leaseName(name string) string { return leasePrefix + name }

// Names returns the names of the texts that are there.
func (l *Leases) Names(ctx context.Context) (names []string, err error) {
	l.once.Do(func() { l.open(ctx) })
	if l.err != nil {
		return nil, l.err
	}
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) { return l.leases.List(ctx, opts) }))
	list.PageSize, list.PageBufferSize = sweepLimit, 1
	err = list.EachListItem(ctx, metav1.ListOptions{LabelSelector: ofLedgers}, func(o runtime.Object) error {
		if name, ok := strings.CutPrefix(o.(*coordinationv1.Lease).Name, leasePrefix); ok {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

func (l *Leases) open(ctx context.Context) {
	client, err := kubernetes.NewForConfig(l.Config)
	if l.err = err; err == nil {
		l.leases = client.CoordinationV1().Leases(l.Namespace)
		l.sweep(ctx)
	}
}

// try changes the text once; false says that another change came between.
func (l *Leases) try(ctx context.Context, name string, change Change) (bool, error) {
	lease, err := l.lease(ctx, name)
	if err != nil {
		return stale(err)
	}
	old := lease.Annotations[podmeta.AnnotationLedger]
	text, until, err := apply(ctx, change, []byte(old))
	if err != nil {
		if old == "" {
			_ = l.remove(ctx, lease)
		}
		return false, err
	}
	switch {
	case len(text) == 0:
		err = l.remove(ctx, lease)
	case string(text) == old:
		var now *coordinationv1.Lease
		now, err = l.leases.Get(ctx, name, metav1.GetOptions{})
		return err == nil && now.ResourceVersion == lease.ResourceVersion, ignoreNotFound(err)
	default:
		setText(lease, text, until)
		_, err = l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return stale(err)
	}
	return true, nil
}

// lease returns the Lease, which it makes if there is none: a change is written under a version
// that it was read at, also if others make and remove the Lease meanwhile.
func (l *Leases) lease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	lease, err := l.leases.Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return lease, err
	}
	lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy, podmeta.LabelLedger: podmeta.OfTenants},
	}}
	setText(lease, nil, time.Now().Add(emptyFor))
	return l.leases.Create(ctx, lease, metav1.CreateOptions{})
}

// emptyFor is how long an empty Lease stays whose process was killed: longer than any change takes.
const emptyFor = time.Hour

func setText(lease *coordinationv1.Lease, text []byte, until time.Time) {
	now := time.Now()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, podmeta.AnnotationLedger, string(text))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	lease.Spec.LeaseDurationSeconds = new(int32(min(max(until.Sub(now).Seconds()+1, 1), math.MaxInt32)))
}

// remove removes this version of a Lease.
func (l *Leases) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	only := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
	return l.leases.Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &only})
}

// sweep removes the Leases whose time is over, which gateways left that are no more. It is not
// worth an error.
func (l *Leases) sweep(ctx context.Context) {
	list, err := l.leases.List(ctx, metav1.ListOptions{LabelSelector: ofLedgers, Limit: sweepLimit})
	if err != nil {
		return
	}
	for _, lease := range list.Items {
		if isOver(&lease, time.Now()) {
			_ = l.remove(ctx, &lease)
		}
	}
}

// sweepLimit is how many Leases are read at once, and how many a sweep looks at: each may be large.
const sweepLimit = 100

// ofLedgers selects the Leases of ledgers.
var ofLedgers = labels.Set{podmeta.LabelManagedBy: podmeta.ManagedBy, podmeta.LabelLedger: podmeta.OfTenants}.String()

// clockSkew is by how much the clocks of orchestrators may differ, and some more.
const clockSkew = time.Minute

func isOver(lease *coordinationv1.Lease, now time.Time) bool {
	s := lease.Spec
	return s.RenewTime == nil || s.LeaseDurationSeconds == nil ||
		now.After(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second+clockSkew))
}

// stale returns false without an error if an error says that another change was first.
func stale(err error) (bool, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return false, ignoreNotFound(err)
}

// ignoreNotFound returns nil for the error that somebody has removed the Lease. A namespace that
// is missing is an error.
func ignoreNotFound(err error) error {
	if status, ok := err.(apierrors.APIStatus); ok && apierrors.IsNotFound(err) {
		if d := status.Status().Details; d != nil && d.Kind == "leases" {
			return nil
		}
	}
	return err
}
