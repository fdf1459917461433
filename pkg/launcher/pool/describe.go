package pool

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podagent/podagent/pkg/launcher"
)

// Description is what [Describe] finds out about a pool.
type Description struct {
	Pool
	// Problem is why the cluster makes no more pods, in its own words, such as that a quota
	// is used up, or why their workspaces get no storage; empty if it says nothing.
	Problem string
	Waiting []Waiting // the pods that no sandbox has, the oldest first
}

// Waiting is a pod that waits in a pool, or will.
type Waiting struct {
	Name, Node string // Node is empty before the pod has one
	Ready      bool   // whether the cluster takes it for ready; a launch may take it then
	State      string // how far it has come, in the cluster's words: Running, ImagePullBackOff: …
	CreatedAt  time.Time
}

// Describe describes a pool and the pods that wait in it. If there is none, the error is
// [ErrNotFound].
func Describe(ctx context.Context, k *launcher.Kubernetes, name string) (Description, error) {
	deployments, err := deploymentsOf(ctx, k)
	if err != nil {
		return Description{}, err
	}
	d, err := find(ctx, deployments, name)
	if err != nil {
		return Description{}, wrap("describing", name, err)
	}
	waiting, err := waitingIn(ctx, k, name)
	return Description{Pool: describe(d), Problem: cmp.Or(problemOf(d), storageProblem(waiting)), Waiting: waiting}, wrap("describing", name, err)
}

func waitingIn(ctx context.Context, k *launcher.Kubernetes, name string) ([]Waiting, error) {
	api, namespace, err := apiOf(ctx, k)
	if err != nil {
		return nil, err
	}
	list, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set(labelsOf(name)).String()})
	if err != nil {
		return nil, err
	}
	var pods []Waiting
	for i := range list.Items {
		pods = append(pods, waitingPod(&list.Items[i]))
	}
	slices.SortFunc(pods, func(a, b Waiting) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

func waitingPod(pod *corev1.Pod) Waiting {
	w := Waiting{Name: pod.Name, Node: pod.Spec.NodeName, State: stateOf(pod), CreatedAt: pod.CreationTimestamp.UTC()}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			w.Ready = c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return w
}

// stateOf says how far a pod has come.
func stateOf(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return saying(s.State.Waiting.Reason, s.State.Waiting.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return saying(c.Reason, c.Message)
		}
	}
	return string(pod.Status.Phase)
}

// problemOf returns why a Deployment gets no more pods; empty if nothing is known.
func problemOf(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return saying(c.Reason, c.Message)
		}
	}
	return ""
}

// storageProblem returns why the claim of a pod that waits gets no storage, such as that there is no
// such StorageClass; empty if nothing is known. The scheduler says it of the pod.
func storageProblem(pods []Waiting) string {
	for _, w := range pods {
		state := strings.ToLower(w.State)
		if !w.Ready && (strings.Contains(state, "persistentvolumeclaim") || strings.Contains(state, "storageclass")) {
			return w.State
		}
	}
	return ""
}

func saying(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
