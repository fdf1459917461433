package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
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
	lasting, cancel := outlive(ctx, createGrace) // so that the results are known
	defer cancel()
	for err == nil && len(pods) > 0 {
		var pod *corev1.Pod
		pod, err = c.holdAndTake(lasting, spec, &pods[rand.IntN(len(pods))])
		switch {
		case err == nil:
			c.log.Info("took a pod from the pool", "sandbox", spec.ID, "pod", pod.Name, "uid", pod.UID, "pool", spec.Take.Pool)
			return &acquired{pod: pod, manifest: pod, start: Start{Warm: true}}, "", nil
		case isRefused(err) && !changed(err), errors.Is(err, ErrOtherKey):
			return nil, "no pod of the pool can be taken: " + err.Error(), nil
		case !changed(err):
			return nil, "", err
		}
		// Another launch took it. Pods that the pool has got since then are for others.
		pods, why, err = c.warmPods(lasting, spec, "")
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return !fit[pod.UID] })
		why = cmp.Or(why, "other launches took the pods that fit")
	}
	return nil, why, err
}

// changed reports whether an object was not changed because it is no longer what it was.
func changed(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// holdAndTake takes one pod. The error is errAnotherLaunch if another launch of the id is
// under way or has made a pod, and that of the API if the pod is not there to be taken.
func (c *cluster) holdAndTake(ctx context.Context, spec *Spec, pod *corev1.Pod) (*corev1.Pod, error) {
	held, err := c.hold(ctx, spec.ID, pod)
	if apierrors.IsAlreadyExists(err) {
		return nil, errAnotherLaunch
	}
	if err != nil {
		return nil, err
	}
	if err := c.checkAlone(ctx, spec.ID); err != nil {
		return nil, errors.Join(err, c.dropHolding(ctx, held))
	}
	taken, err := c.take(ctx, spec, pod, held)
	if taken != nil || !isRefused(err) && !errors.Is(err, ErrOtherKey) { // in doubt the holding stays, and goes with the pod
		return taken, err
	}
	if dropErr := c.dropHolding(ctx, held); dropErr != nil {
		return nil, dropErr
	}
	return nil, err
}

// checkAlone returns an error if there is a pod of the id's own name, or a paused sandbox. Both
// are looked for once the id has a holding: who makes a pod of the id's own name looks for
// that afterwards, and waits while it is there.
func (c *cluster) checkAlone(ctx context.Context, id string) error {
	if _, err := c.get(ctx, nameOf(id)); !apierrors.IsNotFound(err) {
		return cmp.Or(err, errAnotherLaunch)
	}
	if _, err := c.pausedClaim(ctx, id); !errors.Is(err, ErrNotFound) {
		return cmp.Or(err, ErrPaused) // a sandbox without its files would be a surprise
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
	list, err := c.poolPods(ctx, spec.Take.Pool, version)
	if err != nil {
		return nil, "", err
	}
	why = "the pool has no pods"
	for i := range list {
		if problem := c.unfit(&list[i], spec, r.accepted()); problem != "" {
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
	if s.Pod.Workspace.Keep {
		return "its workspace is kept, and the pods of a pool have a workspace already"
	}
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

// poolPods returns the pods of a pool that nobody has taken, at a resourceVersion.
func (c *cluster) poolPods(ctx context.Context, pool, version string) ([]corev1.Pod, error) {
	list, err := c.api.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{
		LabelSelector:   labels.Set{podmeta.LabelManagedBy: podmeta.ManagedByPool, podmeta.LabelPool: pool}.String(),
		ResourceVersion: version,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of pool %q: %w", pool, c.apiError("*", err))
	}
	return list.Items, nil
}

// unfit says why a pod of a pool cannot be taken for the spec; empty if it can. Its agent must
// accept one of these keys: another may be about to go.
func (c *cluster) unfit(pod *corev1.Pod, spec *Spec, accepted ring) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "it is being deleted"
	case ended(pod):
		return "it has ended"
	case !isRunning(pod) || !isReady(pod):
		return "it does not run yet, or its node does not answer"
	case accepted.of(acceptedNow(pod)...) == nil:
		return "its agent does not accept the present key of the identity: create the pool again"
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

// isReady reports whether the cluster takes a pod for ready. It does not if the pod's node is
// lost.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// setByTaking are the traits that a pod gets when it is taken.
var setByTaking = []string{"lifetime", "idleTimeout", "activeDeadline", "labels"}

// take makes a pod of a pool that of the sandbox, if it has not changed: the one write that
// makes the holding count. The agent gets the assignment by the connection, and again from
// the annotation when it starts again.
func (c *cluster) take(ctx context.Context, spec *Spec, pod *corev1.Pod, held *coordinationv1.Lease) (*corev1.Pod, error) {
	patch, err := c.takingPatch(ctx, spec, pod, held)
	if err != nil {
		return nil, err
	}
	taken, err := c.api.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		return taken, nil
	}
	// The answer may be to a repetition of the request, or have come from in between.
	taken, settleErr := c.settle(ctx, pod, held, isRefused(err))
	if settleErr != nil {
		return nil, fmt.Errorf("%w, and it is not known whether the pod was taken: %w", settleErr, err)
	}
	return taken, c.apiError(pod.Name, err)
}

// isRefused reports whether the API server has refused a request, so that it had no effect.
// Without such an answer it may have had one.
func isRefused(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code >= http.StatusBadRequest && status.ErrStatus.Code < http.StatusInternalServerError
}

func (c *cluster) takingPatch(ctx context.Context, spec *Spec, pod *corev1.Pod, held *coordinationv1.Lease) ([]byte, error) {
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return nil, err
	}
	signer := r.accepted().of(acceptedNow(pod)...)
	if signer == nil {
		return nil, c.otherKey(pod, pod.Annotations[podmeta.AnnotationKey])
	}
	assignment, err := signer.keys.Assignment(string(pod.UID), spec.Env, spec.Protected, spec.Pod.IdleTimeout)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	annotations := podAnnotations(spec, nil, now)
	delete(annotations, podmeta.AnnotationKey) // the agent has its keys
	annotations[podmeta.AnnotationHolding], annotations[podmeta.AnnotationAssignment] = string(held.UID), assignment
	if spec.Pod.Lifetime > 0 {
		annotations[podmeta.AnnotationExpires] = timeText(now.Add(spec.Pod.Lifetime))
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": pod.UID, "resourceVersion": pod.ResourceVersion, // preconditions
			"labels": takenLabels(spec, pod), "annotations": annotations,
			"ownerReferences": nil, // its ReplicaSet makes another
		},
		"spec": map[string]any{"activeDeadlineSeconds": deadlineOf(spec, pod, now)},
	})
}

// takenLabels are the changes of the labels of a pod that is taken. Its pool no longer selects
// it.
func takenLabels(spec *Spec, pod *corev1.Pod) map[string]any {
	changes := map[string]any{podmeta.LabelPool: nil}
	var made traits
	_ = json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made) // it fits, so it was read before
	for name := range made.Labels {
		changes[name] = nil
	}
	for name, value := range podLabels(spec) {
		changes[name] = value
	}
	return changes
}

// deadlineOf returns when the cluster is to end a pod that is taken now, in seconds since the
// pod's start.
func deadlineOf(spec *Spec, pod *corev1.Pod, now time.Time) int64 {
	deadline := *podSpec(spec, nil).ActiveDeadlineSeconds
	if pod.Status.StartTime != nil {
		deadline += max(0, int64(now.Sub(pod.Status.StartTime.Time)/time.Second))
	}
	return min(deadline, int64(maxActiveDeadline/time.Second))
}

// settle returns the pod if this launch has taken it after all. Otherwise it sees to it that it
// is not taken later: unless the request was refused, it deletes the pod, which then goes with
// the holding.
func (c *cluster) settle(ctx context.Context, pod *corev1.Pod, held *coordinationv1.Lease, refused bool) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for {
		now, err := c.get(ctx, pod.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != pod.UID:
			return nil, nil
		case err == nil && isHeldBy(now, held):
			return now, nil
		case err == nil && (refused || now.Labels[podmeta.LabelManagedBy] != podmeta.ManagedByPool):
			return nil, nil
		case err == nil:
			err = c.delete(ctx, now, now.ResourceVersion)
		}
		switch {
		case err == nil:
			return nil, nil
		case errors.As(err, new(*PodError)), ctx.Err() != nil:
			return nil, err
		case !apierrors.IsConflict(err): // the API server is away; a conflict means that the pod has changed
			sleep(ctx, apiRetry)
		}
	}
}

// checkTaken returns an error if a pod that was just taken is about to go: a scale-down that
// saw it in the pool deletes it by its name.
func (c *cluster) checkTaken(ctx context.Context, pod *corev1.Pod) error {
	now, err := c.get(ctx, pod.Name)
	switch {
	case apierrors.IsNotFound(err), err == nil && (now.UID != pod.UID || now.DeletionTimestamp != nil):
		return c.podError(pod, ErrGone, "", "it was deleted as one of its pool")
	case err != nil:
		return fmt.Errorf("cannot see whether the pod stays: %w", err)
	}
	return nil
}

// checkPool checks whether a spec can describe the pods of a pool, which have nothing of a
// sandbox yet.
func (s *Spec) checkPool() *SpecError {
	switch {
	case s.ID != "" || s.Env != nil || s.Protected != nil || s.Git != nil || s.OnClose != "":
		return &SpecError{"ID, Env, Protected, Git or OnClose", "is set, which is for the launch that takes a pod of the pool"}
	case s.Take != Take{}:
		return &SpecError{"Take", "is set, which is for the launch that takes a pod of the pool"}
	case s.Pod.Lifetime != 0 || s.Pod.IdleTimeout != 0 || s.Pod.ActiveDeadline != 0:
		return &SpecError{"Pod.Lifetime, Pod.IdleTimeout or Pod.ActiveDeadline", "is set, which is for the launch that takes a pod of the pool"}
	case s.Pod.Workspace.Keep:
		return &SpecError{"Pod.Workspace.Keep", "is set, but the cluster fills a pool with pods that share one description, and so cannot have a claim each that outlives them"}
	case len(s.Pod.Main) > 0:
		return &SpecError{"Pod.Main", "is set, but nothing runs in a pod of a pool before it is taken"}
	}
	return nil
}

// awaitTaking makes a pod one that waits for its sandbox, for the template of a pool. A
// template's pods are always restarted. But an agent that ends by itself ends for good, where
// the cluster keeps restart policies of containers (Kubernetes 1.35): see endedForGood.
func awaitTaking(pod *corev1.Pod, pool string) {
	delete(pod.Labels, podmeta.LabelID)
	maps.Copy(pod.Labels, map[string]string{podmeta.LabelManagedBy: podmeta.ManagedByPool, podmeta.LabelPool: pool})
	for _, name := range []string{podmeta.AnnotationID, podmeta.AnnotationCreated, podmeta.AnnotationHeartbeat} {
		delete(pod.Annotations, name)
	}
	pod.Spec.ActiveDeadlineSeconds = nil
	agent := agentContainer(pod)
	agent.RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
	agent.Env = append(agent.Env,
		corev1.EnvVar{Name: awaitVariable, Value: "true"},
		fromAnnotation("PODAGENT_ASSIGNMENT", podmeta.AnnotationAssignment),
		fromAnnotation(expiresVariable, podmeta.AnnotationExpires),
	)
}

// awaitVariable makes an agent await its assignment.
const awaitVariable = "PODAGENT_AWAIT_ASSIGNMENT"

// fromAnnotation returns a variable that has the value of a pod's annotation at each start of
// the container; empty without one.
func fromAnnotation(variable, annotation string) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + annotation + "']"},
	}}
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
