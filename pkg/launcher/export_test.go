package launcher

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

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

// IdentityFile is what the tests of identities call.
var IdentityFile = identityFile

var LimitsFinding = limitsFinding

// CurrentKey returns the public half of the newest version.
func CurrentKey(r ring) string { return r[0].AuthorizedKey().String() }

// Acquire takes, creates or adopts the pod of a sandbox, as a launch does, but connects to none.
// It returns the pod's name and UID, and what a launch does that then fails; nil if it adopted
// the pod.
func (k *Kubernetes) Acquire(ctx context.Context, spec Spec) (pod, uid string, abandon func(context.Context) error, err error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return "", "", nil, err
	}
	c.connectWarm = func(context.Context, *corev1.Pod) (*warmConn, error) { return nil, nil }
	a, err := c.acquire(ctx, &spec, "")
	if err != nil {
		return "", "", nil, err
	}
	if a.created() {
		abandon = func(ctx context.Context) error { return c.abandon(ctx, a.pod) }
	}
	return a.pod.Name, string(a.pod.UID), abandon, nil
}

// FindPod finds the pod of a sandbox and marks it as used, as Open does before it connects.
func (k *Kubernetes) FindPod(ctx context.Context, id string) (pod, uid string, err error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return "", "", err
	}
	return namesOf(c.findAndMark(ctx, id))
}

func namesOf(pod *corev1.Pod, err error) (name, uid string, _ error) {
	if err != nil {
		return "", "", err
	}
	return pod.Name, string(pod.UID), nil
}

// Revive finds or makes the pod of a sandbox, as Resume does before it connects.
func (k *Kubernetes) Revive(ctx context.Context, id string) (pod, uid string, err error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return "", "", err
	}
	found, _, err := c.revive(ctx, id)
	return namesOf(found, err)
}

// AcquireWhy is Acquire, and says why the launch did not take a pod out of its pool.
func (k *Kubernetes) AcquireWhy(ctx context.Context, spec Spec) (pod, why string, err error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return "", "", err
	}
	a, err := c.acquire(ctx, &spec, "")
	if err != nil {
		return "", "", err
	}
	return a.pod.Name, a.start.Cold, nil
}

// Hold makes the holding by which the id is to get a pod, as a launch does that takes one.
func (k *Kubernetes) Hold(ctx context.Context, id string, pod *corev1.Pod) error {
	c, ctx, err := k.cluster(ctx)
	if err == nil {
		_, err = c.hold(ctx, c.newHolding(id, pod))
	}
	return err
}

// Tell makes the agents of all sandboxes accept the good keys, as a rotation does.
func (k *Kubernetes) Tell(ctx context.Context) error {
	c, ctx, err := k.cluster(ctx)
	if err == nil {
		_, _, err = c.tellAll(ctx, false)
	}
	return err
}

// Heartbeats returns how to write the parts of the Lease of a launcher's heartbeats, and how to read
// those of all launchers by the pods' UIDs.
func (k *Kubernetes) Heartbeats(ctx context.Context) (
	write func(ctx context.Context, parts map[int][]string, now time.Time) error, read func(ctx context.Context, uids []string) (map[string]time.Time, error), err error,
) {
	c, _, err := k.cluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	read = func(ctx context.Context, uids []string) (map[string]time.Time, error) {
		pods := make([]corev1.Pod, len(uids))
		for i := range pods {
			pods[i].UID = types.UID(uids[i])
		}
		beats, err := c.heartbeats(ctx, pods...)
		byUID := map[string]time.Time{}
		for uid, beat := range beats {
			byUID[string(uid)] = beat
		}
		return byUID, err
	}
	return newBeatLease(c).write, read, nil
}
