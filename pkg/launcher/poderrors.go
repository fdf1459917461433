package launcher

import (
	"errors"
	"fmt"
	"strings"
)

// ErrPaused says that a sandbox has no pod, but that its files are kept: see
// [Kubernetes.Resume].
var ErrPaused = errors.New("the sandbox is paused")

// Why a pod is no sandbox, or not yet or no longer. Each is the class of a
// [*PodError].
var (
	// ErrImage says that the container image cannot be had.
	ErrImage = errors.New("cannot pull the image")
	// ErrUnschedulable says that no node can hold the pod.
	ErrUnschedulable = errors.New("no node can hold the pod")
	// ErrCannotStart says that the container cannot be started: the image may
	// have no podagent, or not be allowed to run as it is.
	ErrCannotStart = errors.New("the container cannot start")
	// ErrCrashLoop says that the container ends again and again.
	ErrCrashLoop = errors.New("the container keeps ending")
	// ErrNotReady says that the agent did not answer within the ReadyTimeout, or
	// until the deadline of the caller.
	ErrNotReady = errors.New("the agent did not answer in time")
	// ErrRejected says that the cluster does not admit the pod: a quota, a
	// Pod Security Standard, a policy.
	ErrRejected = errors.New("the cluster does not admit the pod")
	// ErrForbidden says that the caller lacks a permission.
	ErrForbidden = errors.New("permission is missing")
	// ErrNoNamespace says that there is no such namespace.
	ErrNoNamespace = errors.New("there is no such namespace")
	// ErrNotOurs says that a pod of this name is not the sandbox's.
	ErrNotOurs = errors.New("a pod of this name is not ours")
	// ErrOtherKey says that the pod was launched with another identity.
	ErrOtherKey = errors.New("the pod was launched with another identity")
	// ErrStale says that the pod has ended.
	ErrStale = errors.New("the pod has ended")
	// ErrDrift says that the pod was made from another Spec.
	ErrDrift = errors.New("the pod's spec differs")
	// ErrNoListener is the [ErrDrift] of a pod that is to be reached by its
	// address, but whose agent does not listen there.
	ErrNoListener = fmt.Errorf("%w: its agent does not listen on the pod's address", ErrDrift)
	// ErrNotKept says that the pod's files would end with it.
	ErrNotKept = errors.New("the sandbox's files would be lost")
	// ErrNoLifetime says that the pod has no end that could be put off.
	ErrNoLifetime = errors.New("the sandbox has no lifetime to extend")
	// ErrDeadline says that the pod's active deadline is earlier.
	ErrDeadline = errors.New("the pod's active deadline is earlier")
	// ErrNoStorageClass says that a Workspace is to be kept and names no
	// StorageClass, and that the cluster has no default for it.
	ErrNoStorageClass = errors.New("the cluster has no default StorageClass")
	// ErrGone says that the pod of an open sandbox was deleted or replaced.
	ErrGone = errors.New("the pod is gone")
	// ErrContainerEnded says that the container of an open sandbox ended, and
	// its processes with it. It is started again.
	ErrContainerEnded = errors.New("the container ended")
	// ErrNodeLost says that the node of an open sandbox does not answer.
	ErrNodeLost = errors.New("the pod's node does not answer")
	// ErrOwned says that another orchestrator has the sandbox exclusively.
	ErrOwned = errors.New("the sandbox has another owner")
)

// A PodError says what is wrong with a sandbox's pod.
type PodError struct {
	// Pod is the pod as NAMESPACE/NAME.
	Pod string
	// Class is one of the errors above, which errors.Is finds.
	Class error
	// Reason is Kubernetes' own word for it, such as ErrImagePull; it may be
	// empty.
	Reason string
	// Message says more, in Kubernetes' words or ours.
	Message string
	// Events are the warnings that the cluster has about the pod, latest
	// last.
	Events []string
	// Err is the error of the API, if that is what went wrong.
	Err error
}

func (e *PodError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod %s: %v", e.Pod, e.Class)
	for _, s := range []string{e.Reason, e.Message} {
		if s != "" {
			b.WriteString(": " + s)
		}
	}
	if len(e.Events) > 0 {
		fmt.Fprintf(&b, " (events: %s)", strings.Join(e.Events, "; "))
	}
	return b.String()
}

// Unwrap returns the class, and the API's error if there is one.
func (e *PodError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}
