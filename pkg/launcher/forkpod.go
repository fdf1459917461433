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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// SpecOf is [SpecOf] for this launcher. A paused sandbox is [ErrPaused]. One whose pod says that it was made from more
// than it has gives [ErrRejected]: others have changed what it says, or admission has changed the pod.
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
// identity make a pod that they may not. So they count only as far as the pod made of them asks for nothing beyond the
// pod itself, which nobody can change so.
func (c *cluster) specOf(ctx context.Context, pod *corev1.Pod) (Spec, error) {
	var made traits
	if err := json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made); err != nil {
		return Spec{}, fmt.Errorf("annotation %s does not say what it was made from: %w", podmeta.AnnotationSpec, err)
	}
	spec := made.spec()
	spec.ID, spec.Labels = pod.Annotations[podmeta.AnnotationID], podmeta.LabelsIn(pod.Annotations)
	bare := spec
	if err := c.assigned(ctx, pod, &spec); err != nil {
		return Spec{}, err
	}
	if pod.Annotations[podmeta.AnnotationAssignment] == "" { // else the pod was made without what it was assigned
		bare = spec
	}
	if err := spec.validatePod(); err != nil {
		return Spec{}, err
	}
	ofClass, classErr := c.selectorOfClass(ctx, pod)
	if what, err := bare.beyond(pod, ofClass); err != nil || what != "" {
		return Spec{}, cmp.Or(err, errors.Join(fmt.Errorf("annotation %s %s", podmeta.AnnotationSpec, what), classErr))
	}
	if err := c.checkStorage(ctx, pod, spec.Pod.Workspace); err != nil {
		return Spec{}, err
	}
	spec.ID = ""
	return spec, nil
}

// selectorOfClass returns the node selector that the RuntimeClass of a pod has added to it. An error counts only if the
// pod has a selector that nobody else accounts for: few identities may read what belongs to the whole cluster.
func (c *cluster) selectorOfClass(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	if pod.Spec.RuntimeClassName == nil || len(pod.Spec.NodeSelector) == 0 {
		return nil, nil
	}
	class, err := c.api.NodeV1().RuntimeClasses().Get(ctx, *pod.Spec.RuntimeClassName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("its runtime class cannot be read: %w", err)
	}
	if class.Scheduling == nil {
		return nil, nil
	}
	return class.Scheduling.NodeSelector, nil
}

// beyond says what the pod of the Spec asks for beyond one that is there; empty if nothing. The RuntimeClass adds a node
// selector to both.
func (s *Spec) beyond(there *corev1.Pod, ofClass map[string]string) (string, error) {
	asked, problem := patched(manifest(s, there.Namespace, nil, time.Time{}), s.Pod.Patch)
	if problem != nil {
		return "", problem
	}
	if s.Pod.UserNamespace == Prefer && asked.Spec.HostUsers == nil && ownUsers(there) {
		asked.Spec.HostUsers = new(false) // as its launch decided: see preferUserNamespace
	}
	if !s.Pod.Workspace.Owned { // as podFor does; the root, which has the files in older claims, is more
		there = there.DeepCopy()
		mountFiles(&asked.Spec, filesDir)
		mountFiles(&there.Spec, filesDir)
	}
	return beyond(asked, there, ofClass), nil
}

// checkStorage checks that a workspace that is kept asks for no more storage, and of no other class, than the pod has.
func (c *cluster) checkStorage(ctx context.Context, pod *corev1.Pod, w Workspace) error {
	if !w.Keep {
		return nil
	}
	if !ownClaim(pod) {
		return fmt.Errorf("annotation %s asks for a workspace that is kept, which the pod lacks", podmeta.AnnotationSpec)
	}
	claim, err := c.claimOfPod(ctx, pod)
	if err != nil {
		return err
	}
	size, _ := w.bound()
	has, class := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Spec.StorageClassName
	if has.Cmp(size) < 0 || w.StorageClass != "" && (class == nil || *class != w.StorageClass) {
		return fmt.Errorf("annotation %s asks for %s of the storage class %q, and the claim of the pod has other storage", podmeta.AnnotationSpec, &size, w.StorageClass)
	}
	return nil
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
	switch {
	case agent == nil:
		return errors.New("it has no agent")
	case variable(agent.Env, awaitVariable).Name != "":
		return fmt.Errorf("it is of a pool, and annotation %s does not say what its agent was assigned", podmeta.AnnotationAssignment)
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
