package launcher

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pod says what pod [Kubernetes] makes for a new sandbox. Sandbox.Drift lists how
// an existing pod differs from it, except in Annotations.
type Pod struct {
	// Image has podagent in its PATH unless AgentImage is set. Empty means [DefaultImage]; no image is a *[SpecError].
	Image string
	// AgentImage has podagent in its PATH, and installs it for an Image that lacks it, which needs no shell.
	AgentImage string
	// Main is a command of up to 64 KiB that runs beside the agent, such as the image's own: in the workdir, with its
	// output in the container's log. The container ends and starts again with it. The sandbox may be idle meanwhile.
	Main []string
	// Labels and Annotations (up to 128 KiB) are added to the pod's own. The prefix podagent.dev/ is the launcher's.
	Labels, Annotations map[string]string
	// Resources are the container's; what is missing has a default, and a limit of 0 is
	// none. By default ephemeral-storage is DefaultDiskLimit and the workspace's Size.
	Resources corev1.ResourceRequirements
	// ServiceAccount is the account that the pod runs as, with its token if it mounts one; empty: the default, without.
	ServiceAccount string
	Profile        Profile // the Pod Security Standard that the pod keeps
	Confine        string  // what must confine commands ("filter", "domain"), or "off": docs/pods.md
	ReadOnlyRoot   bool    // makes the image's files read-only: /tmp is a volume then
	// UserNamespace maps the pod's users to some without rights on the node. Nodes with
	// AppArmor apply the runtime's profile; RequireAppArmor refuses others.
	UserNamespace   Want
	RequireAppArmor bool
	// RuntimeClass, PriorityClass and PullSecrets name what the cluster or namespace has.
	RuntimeClass, PriorityClass string
	PullSecrets                 []string
	// NodeSelector and Tolerations are labels and taints of nodes that the pod may run on.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// Patch changes the pod that the other fields make: a strategic merge patch of any fields, in YAML or
	// JSON, of up to 64 KiB. The agent's container is called agent. The patch must leave what the launcher
	// gives: the command, workdir, variables, volumes, mounts, init containers, labels, annotations, restart
	// policy and protections. envFrom needs a prefix, so that no variable becomes a setting (PODAGENT_).
	Patch          []byte
	Volumes        []Volume      // up to 64; in a read-only directory they can be written if they may
	Workspace      Workspace     // at the workdir: by default an emptyDir, whose files end with the pod
	ReadOnly       []ReadOnlyDir // up to 64 directories that nobody in the pod can change, not even root
	ActiveDeadline time.Duration // from its start, when the cluster ends it; 0: DefaultActiveDeadline
	// Lifetime is when the sandbox ends itself after its launch or resumption, unless it
	// is extended ([Kubernetes.Extend]): 5 s to the ActiveDeadline, which 0 means.
	Lifetime time.Duration
	// IdleTimeout is how long the sandbox may be idle before it ends itself: 5 s or more, or 0 for ever. It
	// is idle without a call but Info and the list of processes and, unless IdleIgnoresCommands, without a
	// command, whatever that left behind. Its pod succeeds; see Take.OnStale.
	IdleTimeout         time.Duration
	IdleIgnoresCommands bool
}

// Profile is a Pod Security Standard
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
type Profile string

const (
	// Restricted, the default: an unprivileged user (1000, with a home of its own),
	// no capabilities, no escalation, the runtime's seccomp filter.
	Restricted Profile = "restricted"
	// Baseline runs as root, to install packages, with containers' default capabilities but NET_RAW.
	Baseline Profile = "baseline"
)

// Want is how much a pod wants what some clusters lack; empty: not at all.
type Want string

const (
	Prefer  Want = "prefer"  // use it if all nodes can be seen to have it, and no claim is mounted
	Require Want = "require" // do not run without it
)
