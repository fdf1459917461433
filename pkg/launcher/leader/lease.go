package leader

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Lease chooses the process that holds a Lease. It needs get, create, update and delete on Leases.
// A leader that ends gives the Lease up, and deletes it if nobody else has taken it.
type Lease struct {
	// API returns how to reach the API server, and the namespace that holds the Lease: see
	// launcher.Kubernetes.API. While it fails, nobody leads.
	API  func(context.Context) (*rest.Config, string, error)
	Name string
	Log  *slog.Logger // gets when this process leads, and why nobody can be chosen; nil discards it
}

// Lead calls do while this process leads. If it leads no more, do's context ends; when do has
// returned, Lead waits until this process leads again. It returns when ctx ends and do has returned.
func (l *Lease) Lead(ctx context.Context, do func(context.Context)) {
	failed := &failures{log: l.Log}
	leases, namespace, err := l.open(ctx)
	for ; err != nil && ctx.Err() == nil; leases, namespace, err = l.open(ctx) {
		failed.say(err)
		delay.For(ctx, retryPeriod)
	}
	if err != nil {
		return
	}
	lock := &sayingLock{failures: failed, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: l.Name},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity()},
		Labels:     map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy},
	}}
	for ctx.Err() == nil {
		l.term(klog.NewContext(ctx, logr.Discard()), lock, do) // it would log each try
	}
	removeFree(ctx, leases.Leases(namespace), l.Name)
}

func (l *Lease) open(ctx context.Context) (typed.LeasesGetter, string, error) {
	config, namespace, err := l.API(ctx)
	if err != nil {
		return nil, "", err
	}
	leases, err := typed.NewForConfig(config)
	return leases, namespace, err
}

// term waits until this process leads, and calls do once.
func (l *Lease) term(ctx context.Context, lock resourcelock.Interface, do func(context.Context)) {
	leads := make(chan context.Context)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				select {
				case leads <- leading:
				case <-leading.Done():
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		panic(err) // the times do not fit together
	}
	// The Lease is given up after do has returned.
	elected, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(elected)
	}()
	defer func() { giveUp(); <-ended }()
	select {
	case leading := <-leads:
		l.lead(ctx, leading, do)
	case <-ended:
	case <-ctx.Done():
	}
}

// lead calls do until either context ends.
func (l *Lease) lead(ctx, leading context.Context, do func(context.Context)) {
	leading, cancel := context.WithCancel(leading)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	l.say("leads")
	do(leading)
	l.say("leads no more")
}

func (l *Lease) say(what string) {
	if l.Log != nil {
		l.Log.Info(what, "lease", l.Name)
	}
}

// removeFree deletes a Lease that nobody holds. It is not worth an error: the next leader takes it.
func removeFree(ctx context.Context, leases typed.LeaseInterface, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		return
	}
	only := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
	_ = leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &only})
}

// identity names this process: by its host, which in a cluster is its pod, and its number there.
func identity() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s_%d_%s", host, os.Getpid(), strings.ToLower(rand.Text()[:10]))
}

// sayingLock logs what goes wrong with a lock, but not that another process was first.
type sayingLock struct {
	resourcelock.Interface
	*failures
}

func (l *sayingLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if !apierrors.IsNotFound(err) {
		l.told(ctx, err)
	}
	return record, raw, err
}

func (l *sayingLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.told(ctx, l.Interface.Create(ctx, r))
}

func (l *sayingLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.told(ctx, l.Interface.Update(ctx, r))
}

func (l *sayingLock) told(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		l.say(err)
	}
	return err
}
