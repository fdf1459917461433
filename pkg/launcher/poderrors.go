package launcher

import (
	"errors"
	"fmt"
	"strings"
)

// The errors of a sandbox's pod. Each is the class of a [*PodError].
var (
	ErrImage          = errors.New("cannot pull the image")
	ErrUnschedulable  = errors.New("no node can hold the pod")
	ErrCannotStart    = errors.New("the container cannot start") // its image may have no podagent, or not be allowed to run
	ErrCrashLoop      = errors.New("the container keeps ending")
	ErrNotReady       = errors.New("the agent did not answer in time")   // within the ReadyTimeout, or until the caller's deadline
	ErrRejected       = errors.New("the cluster does not admit the pod") // by a quota, a Pod Security Standard, a policy
	ErrForbidden      = errors.New("permission is missing")
	ErrNoNamespace    = errors.New("there is no such namespace")
	ErrNotOurs        = errors.New("a pod of this name is not ours")
	ErrOtherKey       = errors.New("the pod was launched with another identity")
	ErrNewer          = errors.New("this orchestrator is too old for the sandbox")     // see podmeta.AnnotationForm
	ErrUnsigned       = errors.New("this identity has not signed how the pod is made") // see [Kubernetes.SignNote]
	ErrStale          = errors.New("the pod has ended")                                // [ErrEnded] of a local sandbox is one, too
	ErrDrift          = errors.New("the pod's spec differs")
	ErrNoListener     = fmt.Errorf("%w: its agent does not listen on the pod's address", ErrDrift)
	ErrNotKept        = errors.New("the sandbox's files would be lost") // its workspace is not a claim of its own, or the claim is being deleted
	ErrNoLifetime     = errors.New("the sandbox has no lifetime to extend")
	ErrDeadline       = errors.New("the pod's active deadline is earlier")
	ErrNoStorageClass = errors.New("the cluster has no default StorageClass") // and a Workspace with Keep names none
	ErrGone           = errors.New("the pod is gone")                         // deleted or replaced
	ErrContainerEnded = errors.New("the container ended")                     // with its processes; it is restarted
	ErrNodeLost       = errors.New("the pod's node does not answer")
	ErrOwned          = errors.New("the sandbox has another owner") // which has it exclusively
)

// PodError says what is wrong with a sandbox's pod.
type PodError struct {
	Pod             string   // NAMESPACE/NAME
	Class           error    // one of the errors above, which errors.Is finds
	Reason, Message string   // Kubernetes' word, such as ErrImagePull, and more, in its words or ours; may be empty
	Events          []string // the cluster's warnings about the pod, latest last
	Err             error    // of the API, if that is what went wrong
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

// Unwrap returns Class, and Err unless it is nil.
func (e *PodError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}
