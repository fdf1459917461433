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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// ours selects the pods of sandboxes.
var ours = labels.Set{podmeta.LabelManagedBy: podmeta.ManagedBy}.String()

// oursOrWaiting selects the pods of sandboxes, and those that wait to be one's.
var oursOrWaiting = fmt.Sprintf("%s in (%s, %s)", podmeta.LabelManagedBy, podmeta.ManagedBy, podmeta.ManagedByPool)

// lookup returns the pod of the sandbox, in whatever state it is. One of a newer form comes with
// ErrNewer.
func (c *cluster) lookup(ctx context.Context, id string) (*corev1.Pod, error) {
	for ctx.Err() == nil {
		pod, err := c.podOf(ctx, id)
		if err == nil {
			return pod, c.checkOurs(pod, id)
		}
		if !apierrors.IsNotFound(err) {
			return pod, err
		}
		if _, err = c.pausedClaim(ctx, id); err == nil {
			return nil, ErrPaused
		}
		if !errors.Is(err, errAnotherLaunch) { // which has taken a pod since
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}

// open connects to the pod of an existing sandbox.
func (c *cluster) open(ctx context.Context, id string) (*Sandbox, error) {
	pod, err := c.findAndMark(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.enterAgain(ctx, pod, false)
}

// findAndMark returns the pod of the sandbox, if its agent can be called, and marks it as
// used.
func (c *cluster) findAndMark(ctx context.Context, id string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, DefaultReadyTimeout, errNotReady)
	defer cancel()
	pod, err := c.find(ctx, id)
	if err == nil {
		err = c.mark(ctx, pod)
	}
	return pod, err
}

// enterAgain connects to the agent of a pod, using the fields of its Spec that are
// in its annotations.
func (c *cluster) enterAgain(ctx context.Context, pod *corev1.Pod, created bool) (*Sandbox, error) {
	timeout, err := time.ParseDuration(pod.Annotations[podmeta.AnnotationReadyTimeout])
	if err != nil {
		timeout = DefaultReadyTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNotReady)
	defer cancel()
	s, err := c.openPod(pod).attachBeating(ctx, &Spec{}, created)
	if err != nil {
		return nil, c.timedOut(ctx, pod.Name, timeout, err)
	}
	return s, nil
}

// find returns the pod of the sandbox, if its agent can be called.
func (c *cluster) find(ctx context.Context, id string) (*corev1.Pod, error) {
	pod, err := c.lookup(ctx, id)
	if err == nil {
		err = c.callable(ctx, pod)
	}
	if e, ok := errors.AsType[*PodError](err); ok && e.Class == ErrStale {
		e.Events = c.warnings(ctx, pod)
	}
	return pod, err
}

// callable returns why the pod's agent cannot be called.
func (c *cluster) callable(ctx context.Context, pod *corev1.Pod) error {
	if err := c.over(pod); err != nil {
		return err
	}
	if err := c.checkKey(ctx, pod); err != nil {
		return err
	}
	return c.checkListener(pod)
}

// over returns why the pod is no longer a sandbox.
func (c *cluster) over(pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return c.podError(pod, ErrGone, "", "it is being deleted")
	case ended(pod):
		return c.podError(pod, ErrStale, pod.Status.Reason, condition(pod))
	}
	return nil
}

func (c *cluster) terminate(ctx context.Context, id string) error {
	pod, err := c.lookup(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case errors.Is(err, ErrPaused):
		return c.discardPaused(ctx, id)
	case err != nil:
		return err
	}
	left, err := c.leftBeside(ctx, pod, id)
	if err == nil {
		err = c.discard(ctx, pod)
	}
	if err != nil {
		return err
	}
	return c.discardLeft(ctx, left)
}

// leftBeside is what launches that were killed have left of the id's own name beside the pod or
// claim that counts.
type leftBeside struct {
	pod   *corev1.Pod
	claim *corev1.PersistentVolumeClaim
}

// leftBeside looks for what is left beside a pod that counts, before that goes: what comes
// afterwards is a later launch's.
func (c *cluster) leftBeside(ctx context.Context, pod *corev1.Pod, id string) (left leftBeside, err error) {
	if pod.Name != podmeta.NameOf(id) {
		left.pod, err = c.get(ctx, podmeta.NameOf(id))
		if err != nil && !apierrors.IsNotFound(err) {
			return left, err
		}
		if left.pod != nil && c.checkOurs(left.pod, id) != nil {
			left.pod = nil
		}
	}
	if left.pod == nil && ownClaim(pod) {
		left.claim, err = c.leftClaim(ctx, id, claimName(pod))
		return left, err
	}
	return left, nil
}

// discardLeft removes what was left.
func (c *cluster) discardLeft(ctx context.Context, left leftBeside) error {
	if left.pod != nil {
		return c.discard(ctx, left.pod)
	}
	if left.claim != nil {
		return c.removeClaim(ctx, left.claim)
	}
	return nil
}

// discardPaused removes the files of a sandbox that has no pod, unless a launch has
// made one meanwhile.
func (c *cluster) discardPaused(ctx context.Context, id string) error {
	claim, err := c.pausedClaim(ctx, id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errAnotherLaunch) { // others have removed it, and perhaps made it anew
		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.discardFiles(ctx, id, claim, func(*corev1.PersistentVolumeClaim) bool { return true })
	return err
}

// discardFiles removes the claim of a sandbox that has no pod, and reports whether it did: not if a
// launch has made a pod for it since, or it is not such by now.
func (c *cluster) discardFiles(ctx context.Context, id string, claim *corev1.PersistentVolumeClaim, isSuch func(*corev1.PersistentVolumeClaim) bool) (bool, error) {
	if _, err := c.get(ctx, userOf(claim)); !apierrors.IsNotFound(err) { // a launch may have taken the claim before it was seen here
		return false, err
	}
	left, err := c.leftClaim(ctx, id, claim.Name)
	if err != nil {
		return false, err
	}
	if removed, err := c.removeClaimIf(ctx, claim, isSuch); !removed || err != nil {
		return removed, err
	}
	return true, c.discardLeft(ctx, leftBeside{claim: left})
}

// discard removes the pod with all its files, unless another pod has taken them.
func (c *cluster) discard(ctx context.Context, pod *corev1.Pod) error {
	if !ownClaim(pod) {
		return c.remove(ctx, pod)
	}
	claim, err := c.claimOfPod(ctx, pod) // read before the pod goes: the next launch takes the claim after that
	if apierrors.IsNotFound(err) {
		return c.remove(ctx, pod)
	}
	if err == nil {
		err = c.tryDelete(ctx, pod, "")
	}
	if apierrors.IsConflict(err) {
		return nil
	}
	if err == nil || apierrors.IsNotFound(err) {
		err = c.awaitGone(ctx, pod)
	}
	if err != nil {
		return err
	}
	return c.removeClaim(ctx, claim)
}

// discardMade removes what a launch has created, including the claim, unless
// another pod has used the claim since then. The launch's own pod may be long gone.
func (c *cluster) discardMade(ctx context.Context, pod *corev1.Pod) error {
	err := c.remove(ctx, pod)
	if err != nil {
		return err
	}
	claim, err := c.dropClaim(ctx, pod, podmeta.AnnotationResumed)
	if err != nil || claim == nil {
		return err
	}
	return c.awaitNoClaim(ctx, claim)
}

// pods returns the pods of all sandboxes.
func (c *cluster) pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.api.CoreV1().Pods(c.namespace).List(ctx, opts)
	}))
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: ours}, func(o runtime.Object) error {
		pods = append(pods, *o.(*corev1.Pod))
		return nil
	})
	if isRefusal(err) {
		err = fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return pods, err
}

func (c *cluster) list(ctx context.Context) ([]Summary, error) {
	pods, err := c.pods(ctx)
	if err != nil {
		return nil, err
	}
	claims, err := c.claims(ctx)
	beats, beatsErr := c.heartbeats(ctx, pods...)
	if !errors.Is(beatsErr, ErrForbidden) { // without the permission, pods tell
		err = errors.Join(err, beatsErr)
	}
	list := make([]Summary, len(pods), len(pods)+len(claims))
	there, byName := map[string]bool{}, map[string]*corev1.PersistentVolumeClaim{}
	for i := range claims {
		byName[claims[i].Name] = &claims[i]
	}
	for i := range pods {
		list[i] = summaryOf(&pods[i], beats)
		list[i].usesOf(&pods[i], byName[claimName(&pods[i])])
		there[list[i].ID] = true
	}
	slices.SortStableFunc(claims, heldFirst) // byName is not used any more
	for i := range claims {
		if s := summaryOfClaim(&claims[i]); !there[s.ID] {
			list = append(list, s)
			there[s.ID] = true
		}
	}
	slices.SortFunc(list, func(a, b Summary) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

func summaryOf(pod *corev1.Pod, beats heartbeats) Summary {
	s := Summary{
		ID:        pod.Annotations[podmeta.AnnotationID],
		State:     stateOf(pod),
		CreatedAt: pod.CreationTimestamp.UTC(),
		Pod:       pod.Name,
		Pool:      pod.Annotations[podmeta.AnnotationPool],
		Heartbeat: beats.of(pod),
		Labels:    podmeta.LabelsIn(pod.Annotations),
		Expires:   expiry(pod),
	}
	if agent := agentContainer(pod); agent != nil {
		s.Workdir = agent.WorkingDir
	}
	return s
}

func stateOf(pod *corev1.Pod) State {
	switch {
	case pod.DeletionTimestamp != nil:
		return Terminating
	case ended(pod):
		return Ended
	case isRunning(pod):
		return Running
	}
	return Pending
}

// agentContainer returns the agent's container; nil if there is none.
func agentContainer(pod *corev1.Pod) *corev1.Container {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == containerName })
	if i < 0 {
		return nil
	}
	return &pod.Spec.Containers[i]
}

// isRunning reports whether the agent's container runs. The agent serves from its
// first milliseconds on.
func isRunning(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == containerName && s.State.Running != nil
	})
}

// The kubelet's reasons for a container that was not started before. The second one is that
// of a pod with init containers.
const (
	containerCreating = "ContainerCreating"
	podInitializing   = "PodInitializing"
)

// mayServe reports whether the pod's agent may answer: its container runs, or starts. A busy
// kubelet is seconds late to say that it runs.
func mayServe(pod *corev1.Pod) bool {
	starting := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		w := s.State.Waiting
		return s.Name == containerName && w != nil && (w.Reason == containerCreating || w.Reason == podInitializing && isInitialized(pod))
	})
	return isRunning(pod) || starting && hasNetwork(pod)
}

// isInitialized reports whether the init containers have ended.
func isInitialized(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue
	})
}

// heartbeatOf returns when the pod last said that it is needed, or its creation if it does not
// say so readably.
func heartbeatOf(pod *corev1.Pod) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, pod.Annotations[podmeta.AnnotationHeartbeat])
	return cmp.Or(t, pod.CreationTimestamp.UTC())
}
