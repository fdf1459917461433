package launcher

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pod says what pod [Kubernetes] makes for a new sandbox. Sandbox.Drift lists how
// an existing pod differs from it, except in Annotations.
type Pod struct {
	// Image is the container image, which has podagent in its PATH unless
	// AgentImage is set. Empty means [DefaultImage]; without one, a launch is a
	// *[SpecError].
	Image string
	// AgentImage is an image with podagent in its PATH, which installs it for an Image
	// that lacks it. That Image needs no shell.
	AgentImage string
	// Main is a command that runs in the container beside the agent, such as the
	// image's own: from the start, in the workdir, with its output in the
	// container's log. When it ends, the container does, and is started again. It
	// does not keep the sandbox from being idle. It has up to 64 KiB.
	Main []string
	// Labels and Annotations are added to the pod's own. The prefix podagent.dev/
	// is the launcher's. The annotations have up to 128 KiB.
	Labels, Annotations map[string]string
	// Resources are the container's; what is missing has a default. A limit of 0 means
	// none. DefaultDiskLimit, of ephemeral-storage, is for what is not the workspace,
	// whose Size is added.
	Resources corev1.ResourceRequirements
	// ServiceAccount is the account that the pod runs as, with its token if it
	// mounts one. Empty means the namespace's default, without a token.
	ServiceAccount string
	// Profile is the Pod Security Standard that the pod keeps.
	Profile Profile
	// ReadOnlyRoot makes the image's files read-only: /tmp is a volume then.
	ReadOnlyRoot bool
	// UserNamespace maps the pod's users, root too, to users without rights on the
	// node: Kubernetes 1.33 and Linux 6.3. RequireAppArmor refuses nodes without
	// AppArmor; others apply the runtime's profile anyway.
	UserNamespace   Want
	RequireAppArmor bool
	// RuntimeClass, PriorityClass and PullSecrets are names of what the cluster
	// has, the Secrets in the namespace.
	RuntimeClass, PriorityClass string
	PullSecrets                 []string
	// NodeSelector are labels of the nodes that the pod may run on, and
	// Tolerations say which of their taints it tolerates.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// Patch changes the pod that the other fields make: a strategic merge patch of
	// any fields, in YAML or JSON, of up to 64 KiB. The agent's container is called
	// agent. A patch must leave what the launcher gives: the command, workdir,
	// variables, probes, volumes, mounts, init containers, labels, annotations, the
	// restart policy and the Profile. envFrom needs a prefix, so that no variable
	// becomes a setting of the agent (PODAGENT_).
	Patch []byte
	// Volumes are mounted in the pod, up to 64. In a read-only directory they can
	// be written, unless they are read-only themselves.
	Volumes []Volume
	// Workspace is what is at the workdir: by default an emptyDir, whose files end
	// with the pod.
	Workspace Workspace
	// ReadOnly are directories, up to 64, that neither commands nor the agent can
	// change, not even as root: each is a volume that is mounted read-only.
	ReadOnly []ReadOnlyDir
	// ActiveDeadline is when the cluster ends the pod in any case, counted from its
	// start, in whole seconds. 0 means DefaultActiveDeadline.
	ActiveDeadline time.Duration
	// Lifetime is when the sandbox ends itself, counted from its launch or
	// resumption, unless it is extended ([Kubernetes.Extend]): from 5 s to the
	// ActiveDeadline, which 0 means.
	Lifetime time.Duration
	// IdleTimeout is how long the sandbox may be idle before it ends itself: 5 s or
	// more, or 0 for ever. It is idle without a command and without a call, but for
	// Info and the list of processes; what a command left behind does not count.
	// A pod that ended itself has succeeded; see Take.OnStale.
	IdleTimeout time.Duration
}

// Profile is a Pod Security Standard
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
type Profile string

const (
	// Restricted, the default: an unprivileged user (1000, with a home of its own),
	// no capabilities, no escalation, the runtime's seccomp filter.
	Restricted Profile = "restricted"
	// Baseline runs as root with the capabilities that containers get by default but
	// NET_RAW, so that packages can be installed.
	Baseline Profile = "baseline"
)

// Want says what a pod wants of a feature that not every cluster has; empty is nothing.
type Want string

const (
	Prefer  Want = "prefer"  // use it if all nodes can be seen to have it, and no claim is mounted
	Require Want = "require" // do not run without it
)
