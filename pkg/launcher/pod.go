package launcher

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pod says what pod [Kubernetes] makes for a new sandbox. Sandbox.Drift lists in
// what a pod that exists differs from it, Annotations aside.
type Pod struct {
	// Image is the container image, which has podagent in its PATH unless
	// AgentImage is set. Empty means [DefaultImage]; without one, a launch is a
	// *[SpecError].
	Image string
	// AgentImage is an image with podagent in its PATH, from which the agent is
	// installed in a pod whose Image has none: any image, also without a shell.
	AgentImage string
	// Main is a command that runs in the container beside the agent, such as the
	// one that the image would run by itself: from the start on, in the workdir,
	// with its output in the container's log. When it ends, so does the
	// container, which is started again. It is no work by which a sandbox is not
	// idle. It has up to 64 KiB.
	Main []string
	// Labels and Annotations are added to the pod's own. The prefix
	// podagent.dev/ is the launcher's. The annotations have up to 128 KiB.
	Labels, Annotations map[string]string
	// Resources are the container's. A memory request is added if neither a
	// request nor a limit of memory is there: see DefaultMemory.
	Resources corev1.ResourceRequirements
	// ServiceAccount is the account that the pod runs as, with its token if
	// the account mounts one. Empty means the namespace's default account,
	// without a token.
	ServiceAccount string
	// Profile is the Pod Security Standard that the pod keeps.
	Profile Profile
	// RuntimeClass, PriorityClass and PullSecrets are names of what the cluster
	// has: see their kinds in Kubernetes. The Secrets are in the namespace.
	RuntimeClass, PriorityClass string
	PullSecrets                 []string
	// NodeSelector are labels of the nodes that the pod may run on, and
	// Tolerations of which taints it tolerates.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// Patch changes the pod that the other fields make, at the end, as a
	// strategic merge patch in YAML or JSON of up to 64 KiB: any field of a pod.
	// The agent's container is called agent. What the launcher gives must stay: the
	// command and its workdir, variables, probes, volumes and mounts, init containers,
	// labels, annotations, the restart policy and the Profile. envFrom needs a
	// prefix, so that none of its variables is a setting of the agent (PODAGENT_).
	Patch []byte
	// Volumes are mounted in the pod, up to 64. In a read-only directory they can be
	// written, unless they are read-only themselves.
	Volumes []Volume
	// Workspace is what is at the workdir: by default an emptyDir without a
	// bound, whose files end with the pod.
	Workspace Workspace
	// ReadOnly are directories of the pod that neither commands nor the agent
	// can change, as root neither: each is a read-only mount of a volume of
	// its own, whatever the image has there. There are up to 64.
	ReadOnly []ReadOnlyDir
	// ActiveDeadline is when the cluster ends the pod, counted from its start,
	// whatever becomes of the orchestrator: in whole seconds. 0 means
	// DefaultActiveDeadline.
	ActiveDeadline time.Duration
	// Lifetime is when the sandbox ends itself, counted from its launch or
	// resumption, unless it is extended: see [Kubernetes.Extend]. 0 means at the
	// ActiveDeadline, beyond which it cannot be; otherwise it is 5 s or more.
	Lifetime time.Duration
	// IdleTimeout is how long it may be idle: without a call, but for Info and
	// the list of processes, and without a command. What a command left behind
	// when it ended does not count. Then it ends itself. 0 means for ever;
	// otherwise it is 5 s or more. A pod that ended itself has succeeded; see
	// Take.OnStale.
	IdleTimeout time.Duration
}

// Defaults of a [Pod].
const (
	// DefaultMemory is requested for a sandbox, so that nodes are not filled
	// without end: about what a small build needs.
	DefaultMemory = "128Mi"
	// DefaultActiveDeadline is a working day: the cluster's own insurance
	// against sandboxes that everybody forgot.
	DefaultActiveDeadline = 8 * time.Hour
)

// Profile is a Pod Security Standard.
// See https://kubernetes.io/docs/concepts/security/pod-security-standards/.
type Profile string

// The profiles that a sandbox can have.
const (
	// Restricted, the default: an unprivileged user (1000, with a home of its
	// own), no capabilities, no escalation, the runtime's seccomp filter.
	Restricted Profile = "restricted"
	// Baseline runs as root with the capabilities that containers get by
	// default, so that packages can be installed.
	Baseline Profile = "baseline"
)
