// Package podmeta names the labels and annotations by which the launcher knows
// what is its own in a cluster: the pods of sandboxes, the claims of their
// workspaces, and the Leases of their owners. They are a contract with whoever
// looks at a cluster by other means, and among launchers of different versions.
//
// All times are RFC 3339 in UTC with nanoseconds.
package podmeta

// Prefix begins the names of all labels and annotations but LabelManagedBy. No
// others in a pod may begin so.
const Prefix = "podagent.dev/"

// The labels of pods and claims.
const (
	// LabelManagedBy has the value ManagedBy, on Leases and on the Secret of an
	// identity, too.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "podagent"
	// LabelID is the sandbox's id in the letters that a label may have, cut at 63.
	// Several ids may have the same: AnnotationID has it whole.
	LabelID = Prefix + "id"
)

// The annotations of pods and claims.
const (
	// AnnotationID is the sandbox's id.
	AnnotationID = Prefix + "id"
	// AnnotationCreated is when the launch began that made the pod or claim. The
	// pod of a launch and the claim that it made have the same time.
	AnnotationCreated = Prefix + "created-at"
	// AnnotationAdopted is when somebody last used the pod or claim who had not
	// made it. A launch that fails leaves alone what has it.
	AnnotationAdopted = Prefix + "adopted-at"
	// AnnotationResumed is, on a pod, when it was made for a claim that existed, and
	// on a claim, when it last got such a pod. Whoever ends an older pod leaves a
	// claim alone that has it.
	AnnotationResumed = Prefix + "resumed-at"
)

// The annotations of pods.
const (
	// AnnotationHeartbeat is when an orchestrator last said that it needs the
	// sandbox.
	AnnotationHeartbeat = Prefix + "heartbeat-at"
	// AnnotationExpires is when the sandbox ends itself.
	AnnotationExpires = Prefix + "expires-at"
	// AnnotationKey is the fingerprint of the identity whose calls the agent
	// answers.
	AnnotationKey = Prefix + "key"
	// AnnotationReadyTimeout is how long the pod may take until its agent answers,
	// as Go prints a duration. Without it that is launcher.DefaultReadyTimeout.
	AnnotationReadyTimeout = Prefix + "ready-timeout"
	// AnnotationSpec is what the pod was made from, as JSON: drift is measured by
	// it, because admission may change the pod.
	AnnotationSpec = Prefix + "spec"
)

// AnnotationPod is, on a claim, the pod to make when its sandbox is resumed, as
// JSON.
const AnnotationPod = Prefix + "pod"
