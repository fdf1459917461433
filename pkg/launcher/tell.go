package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// errStarting says that an agent may have read its keychain before that was changed, and does
// not answer yet.
var errStarting = errors.New("its agent is about to start, or cannot: try again later, or remove it")

// tellAll makes the agents of all sandboxes accept the good keys of the ring, and no others.
// It returns how many sandboxes are ours, and how many belong to other identities. A final
// change must last: an agent that would forget it is an error.
func (c *cluster) tellAll(ctx context.Context, final bool) (told, others int, err error) {
	pods, err := c.podsWithIDs(ctx, c.namespace)
	if err != nil {
		return 0, 0, err
	}
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return needsNoKeys(&pod) })
	failed := make([]error, len(pods))
	var telling sync.WaitGroup
	slots := make(chan struct{}, reapAtOnce)
	for i := range pods {
		slots <- struct{}{}
		telling.Go(func() {
			defer func() { <-slots }()
			failed[i] = wrap("replacing the keys of", pods[i].Annotations[podmeta.AnnotationID], c.tell(ctx, &pods[i], final))
		})
	}
	telling.Wait()
	for i, err := range failed {
		if errors.Is(err, ErrOtherKey) {
			others++
			failed[i] = nil
		}
	}
	return len(pods) - others, others, errors.Join(failed...)
}

// podsWithIDs returns the pods of all sandboxes, also those that a controller of others has made,
// which look like pods of a pool.
func (c *cluster) podsWithIDs(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	list, err := c.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: oursOrWaiting})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.Labels[podmeta.LabelManagedBy] != podmeta.ManagedBy && pod.Annotations[podmeta.AnnotationID] == ""
	}), nil
}

// tell tells one pod. The error is [ErrOtherKey] if the pod is not ours. That depends only on
// what nobody can change: the keys that its agent was started with, and their signatures.
func (c *cluster) tell(ctx context.Context, pod *corev1.Pod, final bool) error {
	for try := 1; ; try++ {
		err := c.tellOnce(ctx, pod, final)
		// Somebody wrote a heartbeat, say, or told the agent something else.
		if changed := apierrors.IsConflict(err) || errors.Is(err, syscall.EINVAL); !changed || try == tellTries {
			return err
		}
		pod, err = c.api.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && needsNoKeys(pod) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// needsNoKeys reports whether no agent of ours serves in a pod, or will.
func needsNoKeys(pod *corev1.Pod) bool {
	return agentContainer(pod) == nil || ended(pod) || pod.DeletionTimestamp != nil
}

func (c *cluster) tellOnce(ctx context.Context, pod *corev1.Pod, final bool) error {
	if err := c.checkForm(pod.Name, "it", pod); err != nil {
		return err
	}
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return err
	}
	if !followsKeychain(pod) { // it goes on to accept the key that it was launched with
		_, err := c.lengthen(pod, r, "", "")
		if err == nil && final {
			err = errors.New("its pod is of an older version, which knows no other keys: launch it again")
		}
		return err
	}
	if isRunning(pod) {
		return c.tellRunning(ctx, pod, r.accepted())
	}
	_, _, err = c.tellPod(ctx, pod, r.accepted(), "")
	if err == nil && final && pod.Spec.NodeName != "" {
		err = errStarting
	}
	return err
}

// tellRunning tells a pod and its agent. The agent knows the keychain that counts: somebody may
// have shortened that of the pod.
func (c *cluster) tellRunning(ctx context.Context, pod *corev1.Pod, r ring) error {
	return c.openPod(pod).query(ctx, tellTime, func(ctx context.Context, client *podapi.Client) error {
		info, err := client.Info(ctx)
		if err != nil && c.identities.now().of(acceptedNow(pod)...) == nil {
			return c.otherKey(pod, "")
		}
		if err != nil {
			return hideStatus(err)
		}
		if !slices.Contains(info.Capabilities, "keychain") {
			return fmt.Errorf("its agent (%s) cannot replace keys: launch it again", info.Version)
		}
		now, chain, err := c.tellPod(ctx, pod, r, info.Keychain)
		if err != nil || now == nil {
			return err
		}
		if err := client.Configure(ctx, podapi.Config{Keychain: chain}); err != nil {
			return hideStatus(err)
		}
		_, err = c.annotatePod(ctx, now, map[string]string{podmeta.AnnotationKey: fingerprints(r.authorized())})
		return err
	})
}

// hideStatus keeps callers from taking an answer about a connection for one about its pod.
func hideStatus(err error) error {
	if errors.As(err, new(*apierrors.StatusError)) {
		return errors.New(err.Error())
	}
	return err
}

// assignmentAnew returns the assignment of a pod's agent, signed by the first key of a ring:
// the one that signed it may be about to go. One that we have not signed stays as it is.
func (c *cluster) assignmentAnew(pod *corev1.Pod, text string, r ring) string {
	anew, err := r[0].keys.AssignmentAnew(text, string(pod.UID), string(pod.UID), c.identities.now().authorized())
	if err != nil {
		c.log.Warn("the assignment of the pod's agent is not ours", "pod", pod.Name, "error", err)
		return text
	}
	return anew
}

// tellPod writes into a pod the keychain by which its agent, when it starts, accepts the keys
// of a ring and no others. It returns the chain, and the changed pod; nil if it is gone.
func (c *cluster) tellPod(ctx context.Context, pod *corev1.Pod, r ring, agents string) (now *corev1.Pod, chain string, err error) {
	if chain, err = c.lengthen(pod, r, pod.Annotations[podmeta.AnnotationKeychain], agents); err != nil {
		return nil, "", err
	}
	annotations := map[string]string{podmeta.AnnotationKeychain: chain}
	if text := pod.Annotations[podmeta.AnnotationAssignment]; text != "" {
		annotations[podmeta.AnnotationAssignment] = c.assignmentAnew(pod, text, r)
	}
	now, err = c.annotatePod(ctx, pod, annotations)
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	return now, chain, err
}

// annotatePod writes annotations of a pod, unless it has changed.
func (c *cluster) annotatePod(ctx context.Context, pod *corev1.Pod, annotations map[string]string) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return nil, err
	}
	now, err := c.api.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return now, c.apiError(pod.Name, err)
}
