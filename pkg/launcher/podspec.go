package launcher

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// The agent's settings in a pod.
const (
	containerName  = "agent"
	agentProgram   = "podagent"
	agentPort      = 7463
	healthSocket   = "unix:@podagent-health" // abstract: no file system needs to be writable
	defaultWorkdir = "/workspace"
	homeDir        = "/home/agent"
	sandboxUser    = 1000
	keyVariable    = "PODAGENT_AUTHORIZED_KEY"
)

// manifest returns the pod of a sandbox.
func manifest(spec *Spec, namespace string, keys []wire.AuthorizedKey, now time.Time) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        podmeta.NameOf(spec.ID),
			Namespace:   namespace,
			Labels:      podLabels(spec),
			Annotations: podAnnotations(spec, keys, now),
		},
		Spec: podSpec(spec, keys),
	}
	lifeOf(pod, spec, now)
	return pod
}

func podLabels(spec *Spec) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, spec.Pod.Labels)
	labels[podmeta.LabelManagedBy] = podmeta.ManagedBy
	labels[podmeta.LabelID] = podmeta.LabelOf(spec.ID)
	if isolates(spec.egress().Mode) {
		labels[podmeta.LabelEgress] = podmeta.ByTunnel
	}
	return labels
}

func podAnnotations(spec *Spec, keys []wire.AuthorizedKey, now time.Time) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, spec.Pod.Annotations)
	annotations[podmeta.AnnotationID] = spec.ID
	annotations[podmeta.AnnotationCreated] = timeText(now)
	annotations[podmeta.AnnotationHeartbeat] = timeText(now)
	annotations[podmeta.AnnotationKey] = fingerprints(keys)
	annotations[podmeta.AnnotationSpec] = string(traitsOf(spec).json())
	podmeta.SetLabels(annotations, spec.Labels)
	if spec.Take.ReadyTimeout != 0 {
		annotations[podmeta.AnnotationReadyTimeout] = spec.Take.ReadyTimeout.String()
	}
	return annotations
}

func podSpec(spec *Spec, keys []wire.AuthorizedKey) corev1.PodSpec {
	pod := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		ActiveDeadlineSeconds:         new(int64(cmp.Or(spec.Pod.ActiveDeadline, DefaultActiveDeadline) / time.Second)),
		TerminationGracePeriodSeconds: new(int64(podGrace / time.Second)),
		ServiceAccountName:            spec.Pod.ServiceAccount,
		EnableServiceLinks:            new(false),
		NodeSelector:                  spec.Pod.NodeSelector,
		Tolerations:                   spec.Pod.Tolerations,
		PriorityClassName:             spec.Pod.PriorityClass,
		Containers:                    []corev1.Container{container(spec, keys)},
		Volumes:                       []corev1.Volume{spec.Pod.Workspace.volume(podmeta.NameOf(spec.ID))},
	}
	if spec.Pod.RuntimeClass != "" {
		pod.RuntimeClassName = &spec.Pod.RuntimeClass
	}
	for _, name := range spec.Pod.PullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	if spec.Pod.ServiceAccount == "" {
		pod.AutomountServiceAccountToken = new(false)
	}
	secure(&pod, &spec.Pod)
	inject(&pod, spec.Pod.AgentImage)
	mountVolumes(&pod, spec.Pod.Volumes)
	mountReadOnly(&pod, spec.Pod.ReadOnly)
	layOut(&pod, spec.Pod.Workspace)
	boundDirs(&pod)
	return pod
}

// container returns the agent's container. It has no probes. The kubelet starts a process in
// the container for each, which costs a node that starts many pods at once more than the
// agents themselves; and they would say little. Launch waits for the agent's answer, an agent
// that ends is started again, and whoever calls one that hangs finds out.
func container(spec *Spec, keys []wire.AuthorizedKey) corev1.Container {
	workdir := spec.workdir()
	return corev1.Container{
		Name:         containerName,
		Image:        spec.Pod.Image,
		Command:      serveCommand(spec),
		WorkingDir:   workdir,
		Env:          slices.Concat(plain, agentEnv(spec, keys, workdir)),
		Resources:    resources(&spec.Pod),
		VolumeMounts: []corev1.VolumeMount{{Name: workspaceName, MountPath: workdir}},
	}
}

// serveCommand returns the agent's command line. It has the repeatable flags, which
// cannot be environment variables.
func serveCommand(spec *Spec) []string {
	command := []string{spec.Pod.program(), "serve"}
	for _, pattern := range spec.Protected {
		command = append(command, "--protect="+literal(pattern))
	}
	for _, dir := range spec.Pod.ReadOnly {
		command = append(command, "--read-only="+literal(dir.Path))
	}
	for _, v := range spec.Pod.Volumes {
		if v.ReadOnly {
			command = append(command, "--read-only="+literal(v.Path))
		}
	}
	command = append(command, egressPortFlags(spec.egress())...)
	if len(spec.Pod.Main) > 0 {
		command = append(command, "--")
	}
	for _, arg := range spec.Pod.Main {
		command = append(command, literal(arg))
	}
	return command
}

// literal returns a text that Kubernetes does not expand.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// plain makes programs print plain text, and not wait for a key. Git trusts all
// directories: root owns the root of a volume, and only the sandbox can have put a
// repository there.
var plain = []corev1.EnvVar{
	{Name: "TERM", Value: "dumb"},
	{Name: "PAGER", Value: "cat"},
	{Name: "GIT_PAGER", Value: "cat"},
	{Name: "GIT_CONFIG_COUNT", Value: "1"},
	{Name: "GIT_CONFIG_KEY_0", Value: "safe.directory"},
	{Name: "GIT_CONFIG_VALUE_0", Value: "*"},
}

// agentEnv returns the agent's flags as variables, which podagent health reads, too: for
// people, and for probes that a patch adds. One of them holds the environment of commands: the agent itself should not
// run with that, its bytes need not be UTF-8, and Kubernetes must not expand it.
func agentEnv(spec *Spec, keys []wire.AuthorizedKey, workdir string) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: listenVariable, Value: "tcp:127.0.0.1:" + strconv.Itoa(agentPort)},
		{Name: "PODAGENT_HEALTH", Value: healthSocket},
		{Name: "PODAGENT_WORKDIR", Value: literal(workdir)},
		{Name: keyVariable, Value: keysText(keys)},
		keychainEnv(),
		{Name: "PODAGENT_CONFINE", Value: cmp.Or(spec.Pod.Confine, "auto")},
		{Name: "PODAGENT_PROCESS_ENV", Value: wire.FormatEnv(spec.Env)},
		{Name: "PODAGENT_POD_UID", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"},
		}},
	}
	e := spec.egress()
	if e.Mode != "" { // an agent that is too old ignores these
		env = append(env, corev1.EnvVar{Name: "PODAGENT_EGRESS", Value: string(e.Mode)})
	}
	if e.Require != wayout.Open {
		env = append(env, corev1.EnvVar{Name: "PODAGENT_EGRESS_REQUIRE", Value: string(e.Require)})
	}
	return env
}

// traits are what a pod was made from, as far as a difference matters. They leave
// out its annotations, and its environment and protected paths, which an adoption
// replaces.
type traits struct {
	Image          string                      `json:"image"`
	AgentImage     string                      `json:"agentImage,omitempty"`
	Main           []string                    `json:"main,omitempty"`
	Lifetime       string                      `json:"lifetime,omitempty"`
	IdleTimeout    string                      `json:"idleTimeout,omitempty"`
	IdleIgnores    bool                        `json:"idleIgnoresCommands,omitempty"`
	Workdir        string                      `json:"workdir"`
	Profile        Profile                     `json:"profile"`
	Confine        string                      `json:"confine,omitempty"`
	Egress         wayout.Mode                 `json:"egress,omitempty"`
	EgressRequire  wayout.Level                `json:"egressRequire,omitempty"`
	EgressPorts    []uint16                    `json:"egressPorts,omitempty"`
	ServiceAccount string                      `json:"serviceAccount,omitempty"`
	Deadline       string                      `json:"activeDeadline"`
	Resources      corev1.ResourceRequirements `json:"resources,omitzero"`
	Labels         map[string]string           `json:"labels,omitempty"`
	ReadOnly       []ReadOnlyDir               `json:"readOnly,omitempty"`
	Volumes        []Volume                    `json:"volumes,omitempty"`
	Workspace      Workspace                   `json:"workspace,omitzero"`
	Owned          bool                        `json:"workspaceOwned,omitempty"`
	RuntimeClass   string                      `json:"runtimeClass,omitempty"`
	PriorityClass  string                      `json:"priorityClass,omitempty"`
	PullSecrets    []string                    `json:"pullSecrets,omitempty"`
	NodeSelector   map[string]string           `json:"nodeSelector,omitempty"`
	Tolerations    []corev1.Toleration         `json:"tolerations,omitempty"`
	ReadOnlyRoot   bool                        `json:"readOnlyRoot,omitempty"`
	UserNamespace  Want                        `json:"userNamespace,omitempty"`
	AppArmor       bool                        `json:"requireAppArmor,omitempty"`
	Patch          json.RawMessage             `json:"patch,omitempty"`
}

func traitsOf(spec *Spec) traits {
	egress := spec.egress()
	return traits{
		Image:          spec.Pod.Image,
		AgentImage:     spec.Pod.AgentImage,
		Main:           spec.Pod.Main,
		Lifetime:       periodText(spec.Pod.Lifetime),
		IdleTimeout:    periodText(spec.Pod.IdleTimeout),
		IdleIgnores:    spec.Pod.IdleIgnoresCommands,
		Workdir:        spec.workdir(),
		Profile:        cmp.Or(spec.Pod.Profile, Restricted),
		Confine:        spec.Pod.Confine,
		Egress:         egress.Mode,
		EgressRequire:  egress.Require,
		EgressPorts:    egress.Ports,
		ServiceAccount: spec.Pod.ServiceAccount,
		Deadline:       cmp.Or(spec.Pod.ActiveDeadline, DefaultActiveDeadline).String(),
		Resources:      spec.Pod.Resources,
		Labels:         spec.Pod.Labels,
		ReadOnly:       sortedDirs(spec.Pod.ReadOnly),
		Volumes:        sortedVolumes(spec.Pod.Volumes),
		Workspace:      spec.Pod.Workspace.traits(),
		Owned:          spec.Pod.Workspace.Owned,
		RuntimeClass:   spec.Pod.RuntimeClass,
		PriorityClass:  spec.Pod.PriorityClass,
		PullSecrets:    spec.Pod.PullSecrets,
		NodeSelector:   spec.Pod.NodeSelector,
		Tolerations:    spec.Pod.Tolerations,
		ReadOnlyRoot:   spec.Pod.ReadOnlyRoot,
		UserNamespace:  spec.Pod.UserNamespace,
		AppArmor:       spec.Pod.RequireAppArmor,
		Patch:          patchOf(spec),
	}
}

// periodText returns a duration as text; empty for zero.
func periodText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// patchOf returns the patch as JSON, for comparisons.
func patchOf(spec *Spec) json.RawMessage {
	data, _ := parsePatch(spec.Pod.Patch) // validated before
	return data
}

// json returns the traits as they are kept in the annotation.
func (t traits) json() []byte {
	data, _ := json.Marshal(t) // cannot fail
	return data
}

// fromAnnotation returns a variable that has the value of a pod's annotation at each start of
// the container; empty without one.
func fromAnnotation(variable, annotation string) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + annotation + "']"},
	}}
}
