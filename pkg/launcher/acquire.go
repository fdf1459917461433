package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/launchtrace"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// acquired is the pod that a launch uses. It is ours, and is not being deleted.
type acquired struct {
	pod *corev1.Pod
	// manifest is what this launch created the pod from, or the pod that it took out of a
	// pool; nil if the sandbox had its pod.
	manifest *corev1.Pod
	conn     *warmConn // to the agent of a pod that it took out of a pool; else nil
	start    Start
	// drift lists how the pod and its claim differ from the Spec.
	drift []string
}

func (a *acquired) created() bool { return a.manifest != nil }

// trace tells the Trace of a launch how it got its pod.
func (a *acquired) trace(ctx context.Context) {
	got := launchtrace.FromContext(ctx).GotPod
	if got == nil {
		return
	}
	start := launchtrace.Adopted
	switch {
	case a.start.Warm:
		start = launchtrace.Warm
	case a.created():
		start = launchtrace.Cold
	}
	got(launchtrace.Pod{Name: a.pod.Name, Start: start, Why: a.start.Cold})
}

// acquire takes, creates or adopts the pod of spec, and returns it. It takes none if cold says
// why it must not.
func (c *cluster) acquire(ctx context.Context, spec *Spec, cold string) (*acquired, error) {
	for {
		pod, err := c.existing(ctx, spec)
		switch {
		case apierrors.IsNotFound(err):
			a, err := c.start(ctx, spec, cold)
			if !apierrors.IsAlreadyExists(err) && !errors.Is(err, errAnotherLaunch) {
				return a, err
			}
		case err != nil:
			return nil, err
		default:
			a, err := c.adopt(ctx, pod, spec)
			if a != nil || err != nil {
				return a, err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		spec.isNew = false // a request that was repeated may have met what it had made itself
	}
}

// existing returns the pod of the sandbox that the Spec names, as podOf does.
func (c *cluster) existing(ctx context.Context, spec *Spec) (*corev1.Pod, error) {
	if spec.isNew {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), podmeta.NameOf(spec.ID))
	}
	return c.podOf(ctx, spec.ID)
}

// start takes a pod out of a pool, or creates one.
func (c *cluster) start(ctx context.Context, spec *Spec, cold string) (*acquired, error) {
	if spec.Take.Pool != "" && cold == "" {
		a, why, err := c.takeWarm(ctx, spec)
		if spec.Pod.Workspace.Keep && errors.Is(err, ErrPaused) || a == nil && err == nil && c.hasFiles(ctx, spec) {
			a, why, err = nil, "its files are there already, and the pods of a pool have a workspace each", nil
		}
		if a != nil || err != nil {
			return a, err
		}
		cold = why
	}
	if !spec.Pod.Workspace.Keep && !spec.isNew {
		if _, err := c.pausedClaim(ctx, spec.ID); !errors.Is(err, ErrNotFound) {
			return nil, cmp.Or(err, ErrPaused) // a sandbox without its files would be a surprise
		}
	}
	a, err := c.create(ctx, spec)
	if err == nil {
		a.start.Cold = cold
	}
	return a, err
}

// hasFiles reports whether the workspace that the Spec keeps is there already. It counts before
// whatever was wrong with the pods of a pool: none would have been right.
func (c *cluster) hasFiles(ctx context.Context, spec *Spec) bool {
	if !spec.Pod.Workspace.Keep || spec.isNew {
		return false
	}
	_, err := c.pausedClaim(ctx, spec.ID)
	return err == nil
}

func (c *cluster) create(ctx context.Context, spec *Spec) (*acquired, error) {
	manifest, err := c.podFor(ctx, spec)
	if err != nil {
		return nil, err
	}
	pod, err := c.make(ctx, manifest, spec)
	if err != nil {
		return nil, err
	}
	return &acquired{pod: pod, manifest: manifest, drift: c.createdDrift(ctx, pod, spec)}, nil
}

// podFor returns the pod that is made from the Spec.
func (c *cluster) podFor(ctx context.Context, spec *Spec) (*corev1.Pod, error) {
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return nil, err
	}
	pod := manifest(spec, c.namespace, r.accepted().authorized(), time.Now())
	if c.connection == ByAddress {
		listenOnAddress(pod)
	}
	pod, problem := patched(pod, spec.Pod.Patch)
	if problem != nil {
		return nil, problem
	}
	if !spec.Pod.Workspace.Owned { // what makes that directory may run after a patch's init containers
		mountFiles(&pod.Spec, filesDir)
	}
	if spec.Pod.UserNamespace == Prefer {
		c.preferUserNamespace(ctx, pod)
	}
	return pod, nil
}

// make creates the pod, and before it the claim for the workspace if the Spec keeps
// that. The agent gets the keys of this moment.
func (c *cluster) make(ctx context.Context, pod *corev1.Pod, spec *Spec) (*corev1.Pod, error) {
	if err := c.checkMade(pod); err != nil {
		return nil, err
	}
	// The requests outlive ctx, so that their results are known.
	lasting, cancel := outlive(ctx, createGrace)
	defer cancel()
	if spec.Pod.Workspace.Keep {
		if err := c.keepWorkspace(lasting, spec, pod); err != nil {
			return nil, err
		}
	}
	r, err := c.identities.fresh(lasting, ringAge)
	if err != nil {
		return nil, errors.Join(err, c.dropUnused(lasting, pod))
	}
	setKeys(pod, r.accepted())
	made, err := c.api.CoreV1().Pods(c.namespace).Create(lasting, pod, metav1.CreateOptions{})
	if err != nil && !errors.As(err, new(*apierrors.StatusError)) {
		// The answer was lost, but the request may have succeeded.
		return nil, errors.Join(err, c.abandon(ctx, pod))
	}
	if err != nil {
		return nil, errors.Join(c.createError(pod.Name, err), c.dropUnused(lasting, pod))
	}
	if ownUsers(pod) && !ownUsers(made) {
		return nil, errors.Join(c.podError(made, ErrRejected, "", "the API server knows no user namespaces"), c.abandon(ctx, pod))
	}
	c.log.Info("created pod", "sandbox", pod.Annotations[podmeta.AnnotationID], "pod", made.Name, "uid", made.UID)
	if spec.isNew {
		return made, nil
	}
	if err := c.checkAfterwards(lasting, made); err != nil {
		if abandonErr := c.abandon(ctx, made); abandonErr != nil {
			return nil, fmt.Errorf("%w, after: %v", abandonErr, err)
		}
		return nil, err
	}
	return made, nil
}

// checkAfterwards returns errAnotherLaunch if a pod that was just made must go: a launch that took
// a pod out of a pool meanwhile, or a call that deleted the claim, may not have seen this one.
func (c *cluster) checkAfterwards(ctx context.Context, made *corev1.Pod) error {
	held, claim, err := c.held(ctx, made.Annotations[podmeta.AnnotationID])
	if err == nil && (held != nil || isBeside(made, claim)) {
		return errAnotherLaunch
	}
	if err == nil {
		err = c.checkClaim(ctx, made)
	}
	if errors.Is(err, errClaimGone) {
		return errAnotherLaunch
	}
	return err
}

// outlive returns a context that ends some time after ctx.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		delay.For(lasting, grace)
		cancel()
	})
	return lasting, func() { stop(); cancel() }
}

// adopt checks that the pod can be used, and marks it as used. It returns nil if
// the pod is gone, so that the caller looks again.
func (c *cluster) adopt(ctx context.Context, pod *corev1.Pod, spec *Spec) (*acquired, error) {
	if err := c.checkOurs(pod, spec.ID); err != nil {
		return nil, err
	}
	if pod.DeletionTimestamp != nil {
		return nil, c.awaitGone(ctx, pod)
	}
	if err := c.checkKey(ctx, pod); err != nil {
		return nil, err
	}
	if ended(pod) {
		if spec.Take.OnStale != StaleRecreate {
			return nil, c.stale(ctx, pod)
		}
		return nil, c.remove(ctx, pod)
	}
	if err := c.checkListener(pod); err != nil {
		return nil, err
	}
	drift := c.adoptedDrift(ctx, pod, spec)
	if len(drift) > 0 {
		if spec.Take.OnDrift == DriftError {
			return nil, c.podError(pod, ErrDrift, "", joined(drift))
		}
		c.log.Warn("the pod's spec differs", "sandbox", spec.ID, "pod", pod.Name, "drift", drift)
	}
	if !spec.Take.Exclusive { // an exclusive launch marks the pod once it has the lease: see attachOwning
		err := c.mark(ctx, pod)
		switch {
		case errors.Is(err, errClaimGone) && !isRunning(pod): // it never will
			return nil, c.remove(ctx, pod)
		case errors.Is(err, ErrGone):
			return nil, nil
		case err != nil:
			return nil, err
		}
	}
	c.log.Info("adopted pod", "sandbox", spec.ID, "pod", pod.Name, "uid", pod.UID)
	return &acquired{pod: pod, drift: drift}, nil
}

// checkOurs returns an error unless the pod, or claim, belongs to the sandbox.
func (c *cluster) checkOurs(pod metav1.Object, id string) error {
	if pod.GetLabels()[podmeta.LabelManagedBy] != podmeta.ManagedBy {
		return c.podError(pod, ErrNotOurs, "", fmt.Sprintf("it has no label %s=%s", podmeta.LabelManagedBy, podmeta.ManagedBy))
	}
	if got := pod.GetAnnotations()[podmeta.AnnotationID]; got != id {
		return c.podError(pod, ErrNotOurs, "", fmt.Sprintf("it belongs to sandbox %q", got))
	}
	return nil
}

// checkKey returns an error unless the agent accepts our identity, as the pod says.
func (c *cluster) checkKey(ctx context.Context, pod *corev1.Pod) error {
	if _, err := c.versionOf(ctx, acceptedBy(pod)...); err != nil {
		return c.otherKey(pod, pod.Annotations[podmeta.AnnotationKey])
	}
	return nil
}

// acceptedBy returns the fingerprints of the keys that the agent accepts, as the pod says.
// Nothing is trusted for it.
func acceptedBy(pod *corev1.Pod) []string {
	return strings.Split(pod.Annotations[podmeta.AnnotationKey], ",")
}

// otherKey returns the error for a pod of another identity.
func (c *cluster) otherKey(pod *corev1.Pod, theirs string) error {
	return c.podError(pod, ErrOtherKey, "", fmt.Sprintf("it accepts %s, ours is %s", cmp.Or(theirs, "an unknown key"), c.fingerprint()))
}

// ended reports whether the agent will never run again in the pod. Other containers
// of the pod may still run.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == containerName &&
				(pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && exitedWith0(s.State.Terminated) || endedForGood(pod, &s))
		})
}

// endedForGood reports whether an agent of a pool has ended by itself, with 0. Where the
// cluster drops the container's restart policy it runs again, but its sandbox is over.
func endedForGood(pod *corev1.Pod, s *corev1.ContainerStatus) bool {
	if !slices.ContainsFunc(agentContainer(pod).Env, func(v corev1.EnvVar) bool { return v.Name == awaitVariable }) {
		return false
	}
	return exitedWith0(s.State.Terminated) || exitedWith0(s.LastTerminationState.Terminated)
}

func exitedWith0(t *corev1.ContainerStateTerminated) bool { return t != nil && t.ExitCode == 0 }

// stale returns the error for a pod that has ended.
func (c *cluster) stale(ctx context.Context, pod *corev1.Pod) error {
	e := c.podError(pod, ErrStale, pod.Status.Reason, condition(pod))
	e.Events = c.warnings(ctx, pod)
	return e
}

// abandon removes a pod that this launch created, unless another launch has adopted
// it. A later launch finds it gone.
func (c *cluster) abandon(ctx context.Context, created *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for {
		pod, err := c.get(ctx, created.Name)
		// The creation time has nanoseconds, so it tells this launch's pod from
		// another.
		if apierrors.IsNotFound(err) || err == nil && pod.Annotations[podmeta.AnnotationCreated] != created.Annotations[podmeta.AnnotationCreated] {
			return c.dropUnused(ctx, created)
		}
		if err == nil {
			if _, adopted := pod.Annotations[podmeta.AnnotationAdopted]; adopted {
				return nil
			}
			err = c.delete(ctx, pod, pod.ResourceVersion)
		}
		switch {
		case err == nil:
			return c.dropUnused(ctx, created)
		case errors.As(err, new(*PodError)), ctx.Err() != nil:
			return err
		case !apierrors.IsConflict(err): // the API server is away; a conflict means that the pod has changed
			delay.For(ctx, apiRetry)
		}
	}
}
