// Package podmeta names the labels and annotations that mark the launcher's own
// objects in a cluster: the pods of sandboxes, the claims of their workspaces, and
// the Leases of their owners. They are a contract with other tools that look at a
// cluster, and among launchers of different versions.
//
// All times are RFC 3339 in UTC with nanoseconds.
package podmeta

// Prefix begins the names of all labels and annotations except LabelManagedBy. No
// others in a pod may begin with it.
const Prefix = "podagent.dev/"

// The labels of pods and claims.
const (
	// LabelManagedBy has the value ManagedBy, on Leases and on the Secret of an
	// identity, too.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy, and ManagedByPool that of the pods that
	// nobody has taken out of their pool, and of the pool's Deployment.
	ManagedBy     = "podagent"
	ManagedByPool = "podagent-pool"
	// LabelPool is the name of the pool that a pod waits in.
	LabelPool = Prefix + "pool"
	// LabelID is the sandbox's id in the characters that a label may have, cut at 63.
	// Several ids may share one; AnnotationID has the whole id.
	LabelID = Prefix + "id"
	// LabelEgress is, on a pod, ByTunnel if the cluster is asked to let nothing out of it: its commands
	// leave by the connection to its agent.
	LabelEgress = Prefix + "egress"
	ByTunnel    = "tunnel"
	// LabelHeartbeats is, on a Lease, OfPods: it says when the pods that it names were needed.
	LabelHeartbeats = Prefix + "heartbeats"
	OfPods          = "pods"
	// LabelLedger is, on a Lease, OfTenants: it says what tenants of a gateway have reserved.
	LabelLedger = Prefix + "ledger"
	OfTenants   = "tenants"
)

// The annotations of pods and claims.
const (
	// AnnotationID is the sandbox's id.
	AnnotationID = Prefix + "id"
	// AnnotationCreated is when the launch that created the pod or claim began. The
	// pod of a launch and the claim that it created have the same time.
	AnnotationCreated = Prefix + "created-at"
	// AnnotationLabels has the host's own labels of the sandbox, as a JSON object. An object of
	// agent-sandbox has it, too. Nothing in the cluster selects by them.
	AnnotationLabels = Prefix + "labels"
	// AnnotationAdopted is when somebody other than its creator last used the pod or
	// claim. A launch that fails leaves such an object alone.
	AnnotationAdopted = Prefix + "adopted-at"
	// AnnotationResumed is, on a pod, when it was created for an existing claim, and
	// on a claim, when it last got such a pod. When an older pod is removed, a claim
	// with this annotation stays.
	AnnotationResumed = Prefix + "resumed-at"
	// AnnotationCounts is, on a Sandbox of agent-sandbox that has no claim, since when it is
	// known to be the only object of its sandbox.
	AnnotationCounts = Prefix + "counts-at"
	// AnnotationForm is the oldest form of the protocol between launchers that one must know
	// to change or delete the pod, the claim, the Lease by which an id holds a pod, or the
	// object of agent-sandbox: a whole number. Without it that is 1. The Lease of a sandbox out of
	// a pool whose files are kept has 2, and a claim with AnnotationFilesIn 3.
	AnnotationForm = Prefix + "form"
)

// The annotations of pods.
const (
	// AnnotationHeartbeat is when an orchestrator last said in the pod that it needs the sandbox.
	// One that has it open says so more often in a Lease (AnnotationPods).
	AnnotationHeartbeat = Prefix + "heartbeat-at"
	// AnnotationExpires is when the sandbox ends itself.
	AnnotationExpires = Prefix + "expires-at"
	// AnnotationKey has the fingerprints of the keys that the agent accepts, with commas
	// between them.
	AnnotationKey = Prefix + "key"
	// AnnotationKeychain says which keys replace those that the agent was started with.
	// It is signed; the agent reads it at each start.
	AnnotationKeychain = Prefix + "keychain"
	// AnnotationHolding is, on a pod that was taken out of a pool, the UID of the Lease by
	// which the sandbox's id holds it.
	AnnotationHolding = Prefix + "holding"
	// AnnotationPool is, on a pod that was taken out of a pool, the pool's name, for people.
	AnnotationPool = Prefix + "from-pool"
	// AnnotationAssignment is, on a pod that was taken out of a pool, what its agent serves
	// the sandbox with (Assignment in podapi.proto). It is signed; the agent reads it at
	// each start. An object of agent-sandbox keeps one that is signed for that object.
	AnnotationAssignment = Prefix + "assignment"
	// AnnotationReadyTimeout is how long the pod may take until its agent answers, as
	// Go prints a duration. Without it, launcher.DefaultReadyTimeout applies.
	AnnotationReadyTimeout = Prefix + "ready-timeout"
	// AnnotationSpec is what the pod was made from, as JSON. Drift is measured
	// against it, because admission may change the pod.
	AnnotationSpec = Prefix + "spec"
)

// AnnotationPod is, on a claim, and on the Lease of a sandbox that is about to get one with a pod of
// a pool, the pod to create when its sandbox is resumed: a line with the signature of the identity
// that made it, and the pod as JSON, without its environment, which is sealed beside it.
const AnnotationPod = Prefix + "pod"

// AnnotationFilesEnd is, on the claim of a sandbox whose pod had ended and was removed, when that
// sandbox was to end itself, a space, and the claim's AnnotationResumed at that time. If this is
// another by now, the claim has had a pod since, and the note does not count.
const AnnotationFilesEnd = Prefix + "files-end"

// AnnotationFilesIn is, on a claim from its creation on, in which directory of its volume the files of
// its sandbox are. Without it they are in the root.
const AnnotationFilesIn = Prefix + "files-in"

// AnnotationFilesOf is, on a claim with AnnotationFilesIn, whose that directory is: "root" if the node makes it,
// else "user", the sandbox's, as without the annotation. On a pod it is "user" if its claim is such a one.
const AnnotationFilesOf = Prefix + "files-of"

// AnnotationPods is, on a Lease of heartbeats, the UIDs of the pods that its holder needed at the
// renewTime, with commas between them.
const AnnotationPods = Prefix + "pods"

// AnnotationLedger is, on a Lease of a ledger, its text.
const AnnotationLedger = Prefix + "ledger"
