package launcher

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Assignment returns Env, Protected and when it is idle of spec for [Kubernetes.Enter], signed.
// The subject names the object that keeps them.
func (k *Kubernetes) Assignment(ctx context.Context, subject string, spec Spec) (string, error) {
	if err := spec.validateEntering(); err != nil {
		return "", err
	}
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return "", err
	}
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return "", err
	}
	return r.accepted()[0].keys.Assignment(signedSubject(subject), spec.Env, spec.Protected, spec.Pod.idle())
}

// signedSubject is what is signed in place of a pod's UID, which it never equals.
func signedSubject(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return "object " + hex.EncodeToString(sum[:])
}

// validateEntering validates a Spec for a pod that others make, whose image is theirs.
func (s *Spec) validateEntering() error {
	entering := *s
	if entering.Pod.Image == "" {
		entering.Pod.Image = "any"
	}
	if err := entering.validatePod(); err != nil {
		return err
	}
	if why := entering.mustStartCold(); why != "" {
		return &SpecError{"Env, Protected or Pod.Annotations", "cannot be used: " + why}
	}
	return nil
}

// Enter opens spec.ID in a pod of others, made from a [Kubernetes.PoolTemplate]. One that
// waits gets the assignment. end removes the sandbox, or, for CloseDelete, what is the launch's own.
func (k *Kubernetes) Enter(ctx context.Context, pod *corev1.Pod, subject, assignment string, spec Spec, end func(ctx context.Context, own bool) error) (*Sandbox, error) {
	if err := spec.validateEntering(); err != nil {
		return nil, err
	}
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(spec.Take.ReadyTimeout, DefaultReadyTimeout)
	ready, cancel := context.WithTimeoutCause(ctx, timeout, errNotReady)
	defer cancel()
	s, err := c.enterMade(ready, pod, subject, assignment, &spec)
	if err != nil {
		return nil, c.timedOut(ready, pod.Name, timeout, err)
	}
	if spec.Git != nil { // it has its own timeout
		if err := spec.Git.checkout(ctx, s, c.log); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if spec.OnClose == CloseDelete {
		s.undo = func() error {
			return s.cleanUp(func(ctx context.Context) error { return end(ctx, true) })
		}
	}
	s.endBy(func(ctx context.Context) error { return end(ctx, false) })
	return s, nil
}

// enterMade assigns a pod that others have made, unless it is assigned, and connects to its agent.
func (c *cluster) enterMade(ctx context.Context, pod *corev1.Pod, subject, assignment string, spec *Spec) (*Sandbox, error) {
	for {
		if err := cmp.Or(c.over(pod), c.checkForm(pod.Name, "it", pod), c.checkListener(pod)); err != nil {
			return nil, err
		}
		if id, ok := pod.Annotations[podmeta.AnnotationID]; ok {
			return c.enterAssigned(ctx, pod, id, spec)
		}
		// Who asks for gVisor, say, must not get less because of the template.
		if drift := demandedDrift(pod, spec); len(drift) > 0 {
			return nil, c.podError(pod, ErrDrift, "", "its template makes other pods: "+joined(drift))
		}
		a, err := c.assignMade(ctx, pod, subject, assignment, spec)
		switch {
		case err == nil:
			return c.enter(ctx, a, spec)
		case !apierrors.IsConflict(err):
			return nil, err
		}
		if pod, err = c.latest(ctx, pod); err != nil {
			return nil, err
		}
	}
}

// enterAssigned connects to the agent of a pod that belongs to the sandbox of an id.
func (c *cluster) enterAssigned(ctx context.Context, pod *corev1.Pod, id string, spec *Spec) (*Sandbox, error) {
	if id != spec.ID {
		return nil, c.podError(pod, ErrNotOurs, "", fmt.Sprintf("it belongs to sandbox %q", id))
	}
	if err := c.checkKey(ctx, pod); err != nil {
		return nil, err
	}
	drift := demandedDrift(pod, spec)
	if len(drift) > 0 && spec.Take.OnDrift == DriftError {
		return nil, c.podError(pod, ErrDrift, "", joined(drift))
	}
	return c.enter(ctx, &acquired{pod: pod, drift: drift}, spec)
}

// demandedDrift lists how the template of a pod differs from what a Spec says otherwise than the
// defaults: what it leaves open, the template decides. A workspace that is kept is a claim, of which
// the template's pod says nothing.
func demandedDrift(pod *corev1.Pod, spec *Spec) []string {
	var open, said map[string]any
	_ = json.Unmarshal(traitsOf(&Spec{}).json(), &open) // both were just made
	_ = json.Unmarshal(traitsOf(spec).json(), &said)
	return slices.DeleteFunc(driftOf(pod, spec), func(what string) bool {
		name, _, _ := strings.Cut(what, " ")
		return slices.Contains(setByTaking, name) || name == "workspace" && spec.Pod.Workspace.Keep || text(open[name]) == text(said[name])
	})
}

// assignMade assigns a pod that waits. Meanwhile it connects to the agent, if that runs.
func (c *cluster) assignMade(ctx context.Context, pod *corev1.Pod, subject, assignment string, spec *Spec) (*acquired, error) {
	var meeting *meeting
	if isRunning(pod) {
		meeting = c.meet(ctx, spec, pod, nil)
	}
	assigned, err := c.assign(ctx, pod, subject, assignment, spec)
	a := &acquired{pod: assigned, manifest: assigned}
	switch {
	case meeting == nil:
	case err != nil || meeting.await() != nil: // then it connects again, and says what is wrong
		meeting.end()
	default:
		a.conn = meeting.conn
	}
	return a, err
}

// latest returns a pod as it is now.
func (c *cluster) latest(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	now, err := c.get(ctx, pod.Name)
	if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
		return nil, c.podError(pod, ErrGone, "", "it was deleted or replaced")
	}
	return now, err
}

// assign makes a pod that waits that of a sandbox, if it has not changed. The controller that made
// it resets the labels and annotations that its template has, so this leaves those alone.
func (c *cluster) assign(ctx context.Context, pod *corev1.Pod, subject, assignment string, spec *Spec) (*corev1.Pod, error) {
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return nil, err
	}
	signer := r.accepted().of(acceptedNow(pod)...)
	if signer == nil {
		return nil, c.otherKey(pod, strings.Join(acceptedNow(pod), ","))
	}
	signed, err := signer.keys.AssignmentAnew(assignment, signedSubject(subject), string(pod.UID), r.authorized())
	if err != nil {
		return nil, c.podError(pod, ErrUnsigned, "", err.Error())
	}
	annotations := podAnnotations(spec, nil, time.Now())
	for name := range pod.Annotations {
		delete(annotations, name)
	}
	delete(annotations, podmeta.AnnotationReadyTimeout) // part of it is over
	annotations[podmeta.AnnotationKey], annotations[podmeta.AnnotationAssignment] = strings.Join(acceptedNow(pod), ","), signed
	labels := map[string]string{}
	maps.Copy(labels, spec.Pod.Labels)
	labels[podmeta.LabelID] = podmeta.LabelOf(spec.ID)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, // preconditions
		"labels": labels, "annotations": annotations,
	}})
	if err != nil {
		return nil, err
	}
	now, err := c.api.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return now, c.apiError(pod.Name, err)
}
