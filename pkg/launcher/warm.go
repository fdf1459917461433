package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// errAnotherLaunch says that another launch of the id was first, so that its pod is to be
// looked for.
var errAnotherLaunch = errors.New("another launch of the sandbox was first")

// takeWarm takes a pod out of the pool of the spec. Without one that fits it says why.
func (c *cluster) takeWarm(ctx context.Context, spec *Spec) (a *acquired, why string, err error) {
	if why := spec.mustStartCold(); why != "" {
		return nil, why, nil
	}
	pods, why, err := c.warmPods(ctx, spec, "0") // what the API server remembers: a pod that changed since is not taken
	fit := map[types.UID]bool{}
	for i := range pods {
		fit[pods[i].UID] = true
	}
	for unusable := 0; err == nil && len(pods) > 0; {
		pod, kept := c.choose(pods)
		a, err = c.takeOne(ctx, spec, pod, kept)
		noUse, isUnusable := errors.AsType[*unusableError](err)
		switch {
		case err == nil:
			c.log.Info("took a pod from the pool", "sandbox", spec.ID, "pod", pod.Name, "uid", pod.UID, "pool", spec.Take.Pool)
			return a, "", nil
		case ctx.Err() != nil:
			return nil, "", err
		case isUnusable:
			c.log.Warn("cannot use a pod of the pool", "sandbox", spec.ID, "pod", pod.Name, "error", err)
			delete(fit, pod.UID)
			unusable++
			if why = unusableWhy(unusable, noUse.error); unusable >= warmTries {
				return nil, why, nil
			}
		case isRefused(err) && !changed(err), errors.Is(err, ErrOtherKey):
			return nil, "no pod of the pool can be taken: " + err.Error(), nil
		case !changed(err):
			return nil, "", err
		default:
			why = "other launches took the pods that fit"
		}
		var none string
		pods, none, err = c.warmPods(ctx, spec, "")
		// Pods that the pool has got since then are for others.
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return !fit[pod.UID] })
		if unusable == 0 {
			why = cmp.Or(none, why)
		}
	}
	return nil, why, err
}

// unusableWhy says why a launch starts cold although pods wait.
func unusableWhy(pods int, last error) string {
	return fmt.Sprintf("no pod of the pool could be used; it tried %d, the last: %v", pods, last)
}

// changed reports whether an object was not changed because it is no longer what it was.
func changed(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, ErrGone)
}

// choose chooses one of the pods: one with a connection that was kept, which it returns, too, or
// else any, since other launches choose as well.
func (c *cluster) choose(pods []corev1.Pod) (*corev1.Pod, *warmConn) {
	from := rand.IntN(len(pods))
	for i := range pods {
		pod := &pods[(from+i)%len(pods)]
		if kept := c.kept.take(pod); kept != nil {
			return pod, kept
		}
	}
	return &pods[from], nil
}

// takeOne takes one pod, if its agent answers. It connects while it makes the holding, unless it
// has a connection that was kept. The error is an *unusableError if the agent does not answer,
// errAnotherLaunch if another launch of the id is under way or has made a pod, and ErrGone or
// that of the API if the pod is not there to be taken.
func (c *cluster) takeOne(ctx context.Context, spec *Spec, pod *corev1.Pod, kept *warmConn) (*acquired, error) {
	meeting := c.meet(ctx, spec, pod, kept)
	lasting, cancel := outlive(ctx, createGrace) // so that the results are known
	defer cancel()
	taken, err := c.holdAndTake(lasting, spec, pod, meeting.await)
	if err != nil {
		meeting.end()
		return nil, err
	}
	return &acquired{pod: taken, manifest: taken, conn: meeting.conn, start: Start{Warm: true}}, nil
}

// holdAndTake takes one pod, if ready returns nil.
func (c *cluster) holdAndTake(ctx context.Context, spec *Spec, pod *corev1.Pod, ready func() error) (*corev1.Pod, error) {
	held := c.newHolding(spec.ID, pod)
	if spec.Pod.Workspace.Keep {
		if err := c.holdClaim(ctx, held, spec, pod); err != nil {
			return nil, err
		}
	}
	held, err := c.hold(ctx, held)
	if apierrors.IsAlreadyExists(err) {
		return nil, c.otherHolder(ctx, spec.ID)
	}
	if err != nil {
		return nil, err
	}
	if err = c.checkAlone(ctx, spec); err == nil {
		err = ready()
	}
	if err != nil {
		if dropErr := c.dropHolding(ctx, held); dropErr != nil {
			return nil, fmt.Errorf("%w, after: %v", dropErr, err) // no other pod can be tried
		}
		return nil, err
	}
	taken, err := c.take(ctx, spec, pod, held)
	switch {
	case err == nil && spec.Pod.Workspace.Keep:
		return c.keepTaken(ctx, held, taken)
	case err == nil || !isRefused(err) && !errors.Is(err, ErrOtherKey): // in doubt the holding stays, and goes with the pod
		return taken, err
	}
	if dropErr := c.dropHolding(ctx, held); dropErr != nil {
		return nil, dropErr
	}
	return nil, err
}

// keepTaken makes the claim of a pod that was just taken outlive it, or gives the pod up.
func (c *cluster) keepTaken(ctx context.Context, held *coordinationv1.Lease, taken *corev1.Pod) (*corev1.Pod, error) {
	_, err := c.keepFiles(ctx, held, taken)
	if err == nil {
		return taken, nil
	}
	if giveUpErr := c.giveUp(ctx, taken); giveUpErr != nil {
		return nil, fmt.Errorf("%w, after: %v", giveUpErr, err)
	}
	return nil, err
}

// otherHolder returns why an id cannot get a holding: another launch has one, or there are files
// that are kept by one.
func (c *cluster) otherHolder(ctx context.Context, id string) error {
	pod, claim, err := c.held(ctx, id)
	switch {
	case err != nil:
		return err
	case pod == nil && claim != nil:
		return ErrPaused
	}
	return errAnotherLaunch
}

// checkAlone returns an error if there is a pod of the id's own name, or a paused sandbox. Both
// are looked for once the id has a holding: who makes a pod of the id's own name looks for
// that afterwards, and waits while it is there.
func (c *cluster) checkAlone(ctx context.Context, spec *Spec) error {
	if spec.isNew {
		return nil
	}
	claimed := make(chan error, 1)
	go func() {
		_, err := c.namedClaim(ctx, spec.ID) // the id holds none but that of the pod to take
		claimed <- err
	}()
	_, err := c.get(ctx, podmeta.NameOf(spec.ID))
	claimErr := <-claimed
	switch {
	case !apierrors.IsNotFound(err):
		return cmp.Or(err, errAnotherLaunch)
	case !errors.Is(claimErr, ErrNotFound):
		return cmp.Or(claimErr, ErrPaused) // a sandbox without its files would be a surprise
	}
	return nil
}

// warmPods returns the pods of the pool that fit the spec and run, as they were at a
// resourceVersion. If there are none, it says why.
func (c *cluster) warmPods(ctx context.Context, spec *Spec, version string) (pods []corev1.Pod, why string, err error) {
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return nil, "", err
	}
	list, watched := c.kept.pods(spec.Take.Pool)
	if !watched || version != "0" {
		if list, err = c.poolPods(ctx, spec.Take.Pool, version); err != nil {
			return nil, "", err
		}
	}
	why = "the pool has no pods"
	for i := range list {
		problem := c.unfit(&list[i], spec, r.accepted())
		if problem == "" && c.silent.has(list[i].UID) {
			problem = isSilent
		}
		if problem != "" {
			why = "no pod of the pool fits, the last one because " + problem
			continue
		}
		pods = append(pods, list[i])
	}
	if len(pods) > 0 {
		why = ""
	}
	return pods, why, nil
}

// mustStartCold says why no pod of any pool can be taken for the spec; empty if one may.
func (s *Spec) mustStartCold() string {
	assignment, notes := 0, 0
	for _, text := range slices.Concat(s.Env, s.Protected) {
		assignment += len(text) + assignmentOverhead
	}
	for name, value := range podAnnotations(s, nil, time.Time{}) {
		notes += len(name) + len(value)
	}
	if assignment > maxPodEnv || notes+assignment*4/3 > maxNotes {
		return "its environment, protected paths and annotations are too large for a pod that runs already"
	}
	return ""
}

// assignmentOverhead bounds the bytes that a text takes in an assignment besides its own.
const assignmentOverhead = 4

// poolSelector selects the pods of a pool that nobody has taken.
func poolSelector(pool string) string {
	return labels.Set{podmeta.LabelManagedBy: podmeta.ManagedByPool, podmeta.LabelPool: pool}.String()
}

// poolPods returns the pods of a pool that nobody has taken, at a resourceVersion.
func (c *cluster) poolPods(ctx context.Context, pool, version string) ([]corev1.Pod, error) {
	list, err := c.api.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{
		LabelSelector:   poolSelector(pool),
		ResourceVersion: version,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of pool %q: %w", pool, c.apiError("*", err))
	}
	return list.Items, nil
}

// unfit says why a pod of a pool cannot be taken for the spec; empty if it can.
func (c *cluster) unfit(pod *corev1.Pod, spec *Spec, accepted ring) string {
	if problem := unready(pod, accepted); problem != "" {
		return problem
	}
	drift := slices.DeleteFunc(driftOf(pod, spec), func(what string) bool {
		name, _, _ := strings.Cut(what, " ")
		return slices.Contains(setByTaking, name)
	})
	if len(drift) > 0 {
		return joined(drift)
	}
	if err := c.checkListener(pod); err != nil {
		return err.Error()
	}
	return ""
}

// unready says why a pod of a pool cannot be taken for any spec; empty if it can. Its agent must
// accept one of these keys: another may be about to go.
func unready(pod *corev1.Pod, accepted ring) string {
	if problem := podmeta.NewerForm(pod.Annotations); problem != "" {
		return "it " + problem
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return "it is being deleted"
	case pod.Annotations[podmeta.AnnotationID] != "":
		return "it belongs to a sandbox"
	case ended(pod):
		return "it has ended"
	case !isRunning(pod) || !isReady(pod):
		return "it does not run yet, or its node does not answer"
	case accepted.of(acceptedNow(pod)...) == nil:
		return "its agent does not accept the present key of the identity: create the pool again"
	}
	return ""
}

// isReady reports whether the cluster takes a pod for ready. It does not if the pod's node is
// lost.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
