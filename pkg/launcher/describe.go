package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
)

// PodName returns the name of the sandbox's pod; empty if it has none.
func (s *Sandbox) PodName() string {
	if s.pod == nil {
		return ""
	}
	return s.pod.pod.Name
}

// Description is what can be learned of a sandbox in a pod.
type Description struct {
	Summary
	// Namespace holds the pod, Image is the agent's. A new pod has no Node and IP yet.
	Namespace, Node, Image, IP string
	Connection                 Connection // the way by which the launcher reaches the agent
	// Bounds are the container's limits and protections, by name: "none", and "unknown" if only the node knows.
	Bounds map[string]string
	// Phase is the pod's. Reason says in the cluster's words why it does not serve; empty if it does.
	Phase, Reason string
	// Restarts are the container's. LastEnd says how it last ended: "OOMKilled, exit code 137".
	Restarts int
	LastEnd  string
	Labels   map[string]string // the pod's
	// Key has the fingerprints of the keys that the agent accepts, with commas between.
	Key       string
	KeyIsOurs bool    // one of them is the launcher's
	Owner     string  // the exclusive owner; empty means none
	Events    []Event // the cluster's about the pod, oldest first
	Problems  []error // why Owner or Events are unknown, or why it cannot be resumed

	// Agent and Processes are what the agent said, the oldest process first. AgentErr
	// says why it could not be asked; of another version ([podapi.ErrVersion]) Agent is set.
	Agent     *podapi.Info
	Processes []podapi.ProcessInfo
	AgentErr  error
}

// Describe returns what can be learned of a sandbox in any state. The agent stays idle.
// If there is no sandbox, the error is [ErrNotFound].
func (k *Kubernetes) Describe(ctx context.Context, id string) (Description, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return Description{}, wrap("describing", id, err)
	}
	d, err := c.describeAny(ctx, id)
	return d, wrap("describing", id, err)
}

// describeAny describes a sandbox, also one of a newer form, which is only shown.
func (c *cluster) describeAny(ctx context.Context, id string) (Description, error) {
	pod, err := c.lookup(ctx, id)
	newer := errors.Is(err, ErrNewer)
	switch {
	case err == nil, newer && pod != nil && pod.Annotations[podmeta.AnnotationID] == id:
		return c.describe(ctx, pod, err), nil
	case errors.Is(err, ErrPaused):
		return c.describePaused(ctx, id)
	case newer:
		if d, pausedErr := c.describePaused(ctx, id); pausedErr == nil {
			return d, nil
		}
	}
	return Description{}, err
}

// describe describes a sandbox with a pod. It does not ask an agent that must not be called.
func (c *cluster) describe(ctx context.Context, pod *corev1.Pod, uncallable error) Description {
	d := c.describePod(ctx, pod)
	d.Bounds = c.boundsOf(ctx, pod)
	beats, beatsErr := c.heartbeats(ctx, *pod)
	if d.Heartbeat = beats.of(pod); beatsErr != nil && !errors.Is(beatsErr, ErrForbidden) {
		d.Problems = append(d.Problems, fmt.Errorf("cannot learn the last heartbeat: %w", beatsErr))
	}
	var ownerErr, eventsErr error
	if d.Owner, ownerErr = c.ownerOf(ctx, pod); ownerErr != nil {
		d.Problems = append(d.Problems, fmt.Errorf("cannot learn the owner: %w", ownerErr))
	}
	if d.Events, eventsErr = c.eventsOf(ctx, pod); eventsErr != nil {
		d.Problems = append(d.Problems, fmt.Errorf("cannot list the events: %w", eventsErr))
	}
	if d.AgentErr = uncallable; uncallable == nil {
		d.AgentErr = c.describeAgent(ctx, pod, &d)
	}
	return d
}

// describePaused describes a sandbox without a pod by its claim.
func (c *cluster) describePaused(ctx context.Context, id string) (Description, error) {
	claim, newer := c.pausedClaim(ctx, id)
	if newer != nil && (claim == nil || !errors.Is(newer, ErrNewer)) {
		return Description{}, newer
	}
	d := Description{AgentErr: ErrPaused}
	if pod, err := shownPod(claim); err == nil {
		d = c.describePod(ctx, pod)
		d.AgentErr, d.Phase, d.Pod = ErrPaused, "", ""
	}
	_, err := c.notedPodNow(ctx, claim, id)
	if err = cmp.Or(newer, err); err != nil {
		d.Problems = append(d.Problems, fmt.Errorf("cannot be resumed: %w", err))
	}
	d.Summary, d.Namespace, d.Reason = summaryOfClaim(claim), claim.Namespace, "its claim is "+string(claim.Status.Phase)
	return d, nil
}

// describePod describes the pod without asking its agent.
func (c *cluster) describePod(ctx context.Context, pod *corev1.Pod) Description {
	d := Description{
		Summary:    summaryOf(pod, nil),
		Namespace:  pod.Namespace,
		Node:       pod.Spec.NodeName,
		IP:         pod.Status.PodIP,
		Connection: c.connectionTo(pod),
		Phase:      string(pod.Status.Phase),
		Labels:     pod.Labels,
		Key:        pod.Annotations[podmeta.AnnotationKey],
		KeyIsOurs:  c.checkKey(ctx, pod) == nil,
	}
	if agent := agentContainer(pod); agent != nil {
		d.Image = agent.Image
	}
	for _, s := range pod.Status.ContainerStatuses {
		d.Restarts += int(s.RestartCount)
		if t := s.LastTerminationState.Terminated; s.Name == containerName && t != nil {
			d.LastEnd = exitOf(t)
		}
	}
	if d.State != Running {
		d.Reason = progress(pod)
	}
	return d
}

// progress says how far a pod has come, and why it comes no further if the cluster
// knows.
func progress(pod *corev1.Pod) string {
	text := condition(pod)
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Type == corev1.PodScheduled {
			text = joined([]string{text, c.Reason + ": " + c.Message})
		}
	}
	return text
}

var errNotRunning = errors.New("the container does not run")

// describeAgent asks the agent, if it can be reached.
func (c *cluster) describeAgent(ctx context.Context, pod *corev1.Pod, d *Description) error {
	if err := c.callable(ctx, pod); err != nil {
		return err
	}
	if !mayServe(pod) {
		return c.podError(pod, errNotRunning, "", progress(pod))
	}
	err := c.openPod(pod).query(ctx, queryTimeout, func(ctx context.Context, client *podapi.Client) error {
		info, err := client.Info(ctx)
		if err == nil || errors.Is(err, podapi.ErrVersion) {
			d.Agent = &info
			d.State, d.Reason = Running, "" // the agent may answer before the kubelet says that it runs
		}
		if err != nil {
			return err
		}
		d.Processes, err = client.Processes(ctx)
		return err
	})
	if err != nil && d.Agent == nil && ctx.Err() == nil && !isRunning(pod) {
		return c.podError(pod, errNotRunning, "", progress(pod))
	}
	return err
}

// ownerOf returns the exclusive owner of the pod's sandbox; empty if it has none.
func (c *cluster) ownerOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	lease, err := c.api.CoordinationV1().Leases(c.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil || !c.openPod(pod).isHeld(lease) {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}
