package launcher

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// patchField is the field that a patch's errors name.
const patchField = "Pod.Patch"

// patched returns the pod with the patch applied: a strategic merge, as by
// "kubectl patch", in JSON or YAML.
func patched(pod *corev1.Pod, patch []byte) (*corev1.Pod, *SpecError) {
	changes, err := parsePatch(patch)
	if err != nil || changes == nil {
		return pod, err
	}
	before, jsonErr := json.Marshal(pod)
	if jsonErr != nil {
		return nil, &SpecError{patchField, "cannot be applied: " + jsonErr.Error()}
	}
	after, mergeErr := strategicpatch.StrategicMergePatch(before, changes, corev1.Pod{})
	if mergeErr != nil {
		return nil, &SpecError{patchField, "cannot be applied: " + mergeErr.Error()}
	}
	made := &corev1.Pod{}
	if err := json.Unmarshal(after, made); err != nil {
		return nil, &SpecError{patchField, "makes no pod: " + err.Error()}
	}
	return made, nil
}

// parsePatch returns the patch as JSON; nil if it is empty. A field that pods do
// not have is an error.
func parsePatch(patch []byte) ([]byte, *SpecError) {
	if len(patch) > maxPatch {
		return nil, &SpecError{patchField, fmt.Sprintf("has %d bytes: at most %d are allowed", len(patch), maxPatch)}
	}
	if documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(patch))); !isOneDocument(documents) {
		return nil, &SpecError{patchField, "has more than one document"}
	}
	data, err := yaml.YAMLToJSONStrict(patch)
	var tree any
	if err == nil {
		err = json.Unmarshal(data, &tree)
	}
	if err != nil {
		return nil, &SpecError{patchField, "is neither YAML nor JSON: " + err.Error()}
	}
	if tree == nil {
		return nil, nil
	}
	fields, ok := tree.(map[string]any)
	if !ok {
		return nil, &SpecError{patchField, "is not an object with fields of a pod"}
	}
	for name, want := range map[string]string{"apiVersion": "v1", "kind": "Pod"} {
		if got, ok := fields[name]; ok && got != want {
			return nil, &SpecError{patchField, fmt.Sprintf("has %s %v, not %s", name, got, want)}
		}
	}
	plain, err := json.Marshal(withoutDirectives(tree))
	if err == nil {
		var unknown []error
		unknown, err = kjson.UnmarshalStrict(plain, &corev1.Pod{})
		err = errors.Join(append(unknown, err)...)
	}
	if err != nil {
		return nil, &SpecError{patchField, "is no part of a pod: " + err.Error()}
	}
	return data, nil
}

// isOneDocument reports whether at most one document has content.
func isOneDocument(documents *yamlutil.YAMLReader) bool {
	found := 0
	for {
		document, err := documents.Read()
		if len(bytes.TrimSpace(document)) > 0 {
			found++
		}
		if err != nil {
			return found <= 1
		}
	}
}

// withoutDirectives returns the patch without its merge directives, which are not
// fields of a pod.
func withoutDirectives(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		maps.DeleteFunc(tree, func(name string, _ any) bool { return strings.HasPrefix(name, "$") })
		for name, v := range tree {
			tree[name] = withoutDirectives(v)
		}
	case []any:
		for i, v := range tree {
			tree[i] = withoutDirectives(v)
		}
	}
	return tree
}

// checkPatch applies the patch to the pod that would be created, and checks that it
// leaves what the launcher relies on, and the profile.
func (s *Spec) checkPatch() *SpecError {
	if len(s.Pod.Patch) == 0 {
		return nil
	}
	before := manifest(s, "", nil, time.Time{})
	listenOnAddress(before) // as it does with ByAddress
	after, err := patched(before, s.Pod.Patch)
	if err != nil {
		return err
	}
	for _, field := range guarded(before, after) {
		if !apiequality.Semantic.DeepEqual(field.before, field.after) { // compares quantities by value
			return &SpecError{patchField, fmt.Sprintf("changes %s, which is the launcher's", field.name)}
		}
	}
	if err := checkEnvFrom("spec.containers", before.Spec.Containers, after.Spec.Containers); err != nil {
		return err
	}
	if err := checkEnvFrom("spec.initContainers", before.Spec.InitContainers, after.Spec.InitContainers); err != nil {
		return err
	}
	return checkProfile(after, s.Pod.Profile)
}

// agentVariables is the prefix of the agent's settings.
const agentVariables = "PODAGENT_"

// checkEnvFrom checks that the launcher's containers get no variables that may be
// settings of the agent. Their names are known only in the cluster.
func checkEnvFrom(list string, before, after []corev1.Container) *SpecError {
	for _, c := range after {
		if !slices.ContainsFunc(before, func(own corev1.Container) bool { return own.Name == c.Name }) {
			continue
		}
		for i, from := range c.EnvFrom {
			if strings.HasPrefix(agentVariables, from.Prefix) || strings.HasPrefix(from.Prefix, agentVariables) {
				return &SpecError{patchField, fmt.Sprintf("has %s[%s].envFrom[%d], whose variables may be the agent's settings: it needs a prefix with which no name begins with %s",
					list, c.Name, i, agentVariables)}
			}
		}
	}
	return nil
}

// guardedField is a field of the pod that a patch must not change.
type guardedField struct {
	name          string
	before, after any
}

func guarded(before, after *corev1.Pod) []guardedField {
	fields := []guardedField{
		{"metadata.name", before.Name, after.Name},
		{"metadata.generateName", before.GenerateName, after.GenerateName},
		{"metadata.namespace", before.Namespace, after.Namespace},
		{"metadata.labels[" + podmeta.LabelManagedBy + "]", before.Labels[podmeta.LabelManagedBy], after.Labels[podmeta.LabelManagedBy]},
		{"spec.restartPolicy", before.Spec.RestartPolicy, after.Spec.RestartPolicy},
		{"spec.os", before.Spec.OS, after.Spec.OS},
		{"spec.shareProcessNamespace", before.Spec.ShareProcessNamespace, after.Spec.ShareProcessNamespace},
	}
	fields = append(fields, wanted(before, after)...)
	fields = append(fields, ownEntries("metadata.labels", before.Labels, after.Labels)...)
	fields = append(fields, ownEntries("metadata.annotations", before.Annotations, after.Annotations)...)
	for _, v := range before.Spec.Volumes {
		i := slices.IndexFunc(after.Spec.Volumes, func(other corev1.Volume) bool { return other.Name == v.Name })
		fields = append(fields, guardedField{"spec.volumes[" + v.Name + "]", v, at(after.Spec.Volumes, i)})
	}
	for _, c := range before.Spec.Containers {
		fields = append(fields, guardedContainer("spec.containers", &c, after.Spec.Containers)...)
	}
	for _, c := range before.Spec.InitContainers {
		fields = append(fields, guardedContainer("spec.initContainers", &c, after.Spec.InitContainers)...)
	}
	return fields
}

// wanted are the protections that the pod asks for.
func wanted(before, after *corev1.Pod) (fields []guardedField) {
	if before.Spec.HostUsers != nil {
		fields = append(fields, guardedField{"spec.hostUsers", before.Spec.HostUsers, after.Spec.HostUsers})
	}
	if s := before.Spec.SecurityContext; s.AppArmorProfile != nil {
		now := after.Spec.SecurityContext
		fields = append(fields, guardedField{"spec.securityContext.appArmorProfile", true, now != nil && now.AppArmorProfile != nil})
	}
	return fields
}

// ownEntries are the labels or annotations that belong to the launcher, and those
// that the patch adds to them.
func ownEntries(name string, before, after map[string]string) []guardedField {
	all := map[string]string{}
	maps.Copy(all, after)
	maps.Copy(all, before)
	var fields []guardedField
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(key, podmeta.Prefix) {
			fields = append(fields, guardedField{fmt.Sprintf("%s[%s]", name, key), before[key], after[key]})
		}
	}
	return fields
}

// guardedContainer are the fields of one of the launcher's containers.
func guardedContainer(list string, before *corev1.Container, all []corev1.Container) []guardedField {
	name := fmt.Sprintf("%s[%s]", list, before.Name)
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == before.Name })
	if i < 0 {
		return []guardedField{{name, true, false}}
	}
	after := &all[i]
	fields := []guardedField{
		{name + ".command", before.Command, after.Command},
		{name + ".args", before.Args, after.Args},
		{name + ".workingDir", before.WorkingDir, after.WorkingDir},
		{name + ".restartPolicy", before.RestartPolicy, after.RestartPolicy},
		{name + ".tty", before.TTY, after.TTY},
	}
	if s := before.SecurityContext; s != nil && s.ReadOnlyRootFilesystem != nil {
		fields = append(fields, guardedField{name + ".securityContext.readOnlyRootFilesystem", true, hasReadOnlyRoot(after)})
	}
	for _, m := range before.VolumeMounts {
		i := slices.IndexFunc(after.VolumeMounts, func(other corev1.VolumeMount) bool { return other.MountPath == m.MountPath })
		fields = append(fields, guardedField{name + ".volumeMounts[" + m.MountPath + "]", m, at(after.VolumeMounts, i)})
	}
	for _, m := range after.VolumeMounts {
		i := slices.IndexFunc(before.VolumeMounts, func(other corev1.VolumeMount) bool { return path.Clean(other.MountPath) == path.Clean(m.MountPath) })
		if i >= 0 || isBelow(path.Clean(m.MountPath), path.Clean(fillDir)) || path.Clean(m.MountPath) == path.Clean(fillDir) {
			fields = append(fields, guardedField{name + ".volumeMounts[" + m.MountPath + "]", at(before.VolumeMounts, i), m})
		}
	}
	for _, v := range before.Env {
		fields = append(fields, guardedField{fmt.Sprintf("%s.env[%s]", name, v.Name), v, variable(after.Env, v.Name)})
	}
	for _, v := range after.Env {
		if strings.HasPrefix(v.Name, agentVariables) {
			fields = append(fields, guardedField{fmt.Sprintf("%s.env[%s]", name, v.Name), variable(before.Env, v.Name), v})
		}
	}
	return fields
}

// at returns an element, or the zero value if there is none.
func at[T any](list []T, i int) (none T) {
	if i < 0 {
		return none
	}
	return list[i]
}

func variable(env []corev1.EnvVar, name string) corev1.EnvVar {
	return at(env, slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == name }))
}

// evaluator returns the rules of the API server's admission, which take a millisecond to
// make. They may be used concurrently.
var evaluator = sync.OnceValues(func() (policy.Evaluator, error) {
	return policy.NewEvaluator(policy.DefaultChecks(), nil)
})

// checkProfile checks that the pod keeps the profile, by the rules of the API
// server's admission.
func checkProfile(pod *corev1.Pod, profile Profile) *SpecError {
	if profile == "" {
		profile = Restricted
	}
	evaluator, err := evaluator()
	if err != nil {
		return &SpecError{patchField, "cannot be checked: " + err.Error()}
	}
	level := psa.LevelVersion{Level: psa.Level(profile), Version: psa.LatestVersion()}
	if r := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)); !r.Allowed {
		return &SpecError{patchField, fmt.Sprintf("breaks the profile %s: %s", profile, r.ForbiddenDetail())}
	}
	return nil
}
