package launcher

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// checkPlacement checks where the pod may run, and its classes.
func (p *Pod) checkPlacement() *SpecError {
	names := map[string][]string{"Pod.RuntimeClass": {p.RuntimeClass}, "Pod.PriorityClass": {p.PriorityClass}, "Pod.PullSecrets": p.PullSecrets}
	for _, field := range slices.Sorted(maps.Keys(names)) {
		for _, name := range names[field] {
			if name == "" && field != "Pod.PullSecrets" {
				continue
			}
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				return &SpecError{field, fmt.Sprintf("%q: %s", name, problems[0])}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		problems := slices.Concat(validation.IsQualifiedName(name), validation.IsValidLabelValue(p.NodeSelector[name]))
		if len(problems) > 0 {
			return &SpecError{"Pod.NodeSelector", fmt.Sprintf("has %s=%q: %s", name, p.NodeSelector[name], problems[0])}
		}
	}
	for _, t := range p.Tolerations {
		if err := checkToleration(t); err != nil {
			return err
		}
	}
	return nil
}

func checkToleration(t corev1.Toleration) *SpecError {
	const field = "Pod.Tolerations"
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	switch {
	case t.Key == "" && t.Operator != corev1.TolerationOpExists:
		return &SpecError{field, "has one without a key, which needs the operator Exists"}
	case t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0:
		return &SpecError{field, fmt.Sprintf("has the key %q: %s", t.Key, validation.IsQualifiedName(t.Key)[0])}
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		return &SpecError{field, fmt.Sprintf("has the value %q, though its operator is Exists", t.Value)}
	case !slices.Contains(effects, t.Effect):
		return &SpecError{field, fmt.Sprintf("has the effect %q: it is NoSchedule, PreferNoSchedule or NoExecute", t.Effect)}
	}
	return nil
}
