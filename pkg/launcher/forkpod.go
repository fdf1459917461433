package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// SpecOf is [SpecOf] for this launcher. A paused sandbox is [ErrPaused]. One whose pod was changed by others since it
// was made gives [ErrRejected].
func (k *Kubernetes) SpecOf(ctx context.Context, id string) (Spec, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return Spec{}, err
	}
	pod, err := c.lookup(ctx, id)
	if err != nil {
		return Spec{}, err
	}
	spec, err := c.specOf(ctx, pod)
	if err != nil {
		return Spec{}, c.podError(pod, ErrRejected, "", err.Error())
	}
	return spec, nil
}

// specOf returns the Spec that a pod was made from, as its annotations say. Others may have changed them, to have this
// identity make a pod that they may not. So they count only if the pod itself has the account, volumes and variables that
// they ask for. Its image, profile and confinement are what they say.
func (c *cluster) specOf(ctx context.Context, pod *corev1.Pod) (Spec, error) {
	var made traits
	if err := json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made); err != nil {
		return Spec{}, fmt.Errorf("annotation %s does not say what it was made from: %w", podmeta.AnnotationSpec, err)
	}
	spec := made.spec()
	spec.ID, spec.Labels = pod.Annotations[podmeta.AnnotationID], podmeta.LabelsIn(pod.Annotations)
	if err := c.assigned(ctx, pod, &spec); err != nil {
		return Spec{}, err
	}
	if err := spec.validatePod(); err != nil {
		return Spec{}, err
	}
	want, problem := patched(manifest(&spec, c.namespace, nil, time.Time{}), spec.Pod.Patch)
	if problem != nil {
		return Spec{}, problem
	}
	is := reachOf(pod, true)
	for what := range reachOf(want, false) {
		if !is[what] {
			return Spec{}, fmt.Errorf("annotation %s says that it has %s, which it has not", podmeta.AnnotationSpec, what)
		}
	}
	spec.ID = ""
	return spec, nil
}

// reachOf returns what a pod gets at that is not its own: an account, volumes, and variables that come from elsewhere.
// admitted says that the cluster has completed the pod.
func reachOf(pod *corev1.Pod, admitted bool) map[string]bool {
	reach := map[string]bool{"account " + cmp.Or(pod.Spec.ServiceAccountName, "default"): true}
	if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
		reach["a token of its account"] = true
	}
	for _, v := range pod.Spec.Volumes {
		switch source := v.VolumeSource; {
		case v.Name == workspaceName || source.EmptyDir != nil:
		case source.PersistentVolumeClaim != nil:
			reach["claim "+source.PersistentVolumeClaim.ClaimName] = true
		case source.Secret != nil:
			reach["secret "+source.Secret.SecretName] = true
		case source.ConfigMap != nil:
			reach["config map "+source.ConfigMap.Name] = true
		default:
			text, _ := json.Marshal(source) // cannot fail; what the cluster completes differs, and is refused
			reach["volume "+string(text)] = true
		}
	}
	for c := range containers(pod) {
		for _, from := range c.EnvFrom {
			text, _ := json.Marshal(from)
			reach["variables "+string(text)] = true
		}
		for _, v := range c.Env {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				reach["secret "+v.ValueFrom.SecretKeyRef.Name] = true
			}
			if v.ValueFrom != nil && v.ValueFrom.ConfigMapKeyRef != nil {
				reach["config map "+v.ValueFrom.ConfigMapKeyRef.Name] = true
			}
		}
	}
	return reach
}

// spec returns the Spec of these traits, as far as they say it.
func (t *traits) spec() Spec {
	spec := Spec{
		Workdir: t.Workdir,
		Egress:  wayout.Config{Mode: t.Egress, Require: t.EgressRequire, Ports: t.EgressPorts},
		Pod: Pod{
			Image: t.Image, AgentImage: t.AgentImage, Main: t.Main, Labels: t.Labels, Resources: t.Resources,
			ServiceAccount: t.ServiceAccount, Profile: t.Profile, Confine: t.Confine, ReadOnlyRoot: t.ReadOnlyRoot,
			UserNamespace: t.UserNamespace, RequireAppArmor: t.AppArmor,
			RuntimeClass: t.RuntimeClass, PriorityClass: t.PriorityClass, PullSecrets: t.PullSecrets,
			NodeSelector: t.NodeSelector, Tolerations: t.Tolerations, Patch: t.Patch,
			Volumes: t.Volumes, Workspace: t.Workspace, ReadOnly: t.ReadOnly, IdleIgnoresCommands: t.IdleIgnores,
		},
	}
	spec.Pod.Workspace.Owned = t.Owned
	period := func(text string) time.Duration {
		d, _ := time.ParseDuration(text) // empty means none
		return d
	}
	spec.Pod.ActiveDeadline, spec.Pod.Lifetime, spec.Pod.IdleTimeout = period(t.Deadline), period(t.Lifetime), period(t.IdleTimeout)
	return spec
}

// assigned adds what the agent of a pod serves its sandbox with.
func (c *cluster) assigned(ctx context.Context, pod *corev1.Pod, spec *Spec) error {
	if text := pod.Annotations[podmeta.AnnotationAssignment]; text != "" {
		r, err := c.identities.fresh(ctx, ringAge)
		if err != nil {
			return err
		}
		a, err := wire.VerifyAssignment(text, string(pod.UID), r.accepted().authorized())
		if err != nil {
			return err
		}
		spec.Env, spec.Protected, spec.Take.Pool = toStrings(a.Env), toStrings(a.ProtectedPaths), pod.Annotations[podmeta.AnnotationPool]
		return nil
	}
	agent := agentContainer(pod)
	if agent == nil {
		return errors.New("it has no agent")
	}
	for _, v := range agent.Env {
		if v.Name == "PODAGENT_PROCESS_ENV" {
			env, err := wire.ParseEnv(v.Value)
			if err != nil {
				return err
			}
			spec.Env = env
		}
	}
	for _, arg := range agent.Command {
		if pattern, ok := strings.CutPrefix(arg, "--protect="); ok {
			spec.Protected = append(spec.Protected, strings.ReplaceAll(pattern, "$$", "$"))
		}
	}
	return nil
}

func toStrings(list [][]byte) []string {
	texts := make([]string, len(list))
	for i, b := range list {
		texts[i] = string(b)
	}
	return texts
}
