package launcher

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// validatePod checks the Pod of a Spec, and whether a pod can have the other
// fields, so that the API is not asked for anything that it would refuse.
func (s *Spec) validatePod() error {
	if err := s.Validate(); err != nil {
		return err
	}
	for _, check := range []func() *SpecError{
		s.checkWorkdir, s.checkEnv, s.checkProtected, s.checkVolumes, s.checkWorkspace, s.checkReadOnly, s.Pod.checkAccount, s.Pod.checkMeta,
		s.Pod.checkResources, s.checkChoices, s.checkEgress, s.Pod.checkDeadline, s.Take.check, s.Pod.checkPlacement, s.Pod.checkLife, s.Pod.checkMain, s.Pod.checkWants, s.checkPatch, s.checkNotes, s.Pod.checkImages,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// systemDirs hold the programs that a sandbox runs. kernelDirs, with everything
// below, belong to the kernel.
var (
	systemDirs = []string{"/bin", "/boot", "/etc", "/lib", "/lib64", "/sbin", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/sbin"}
	kernelDirs = []string{"/dev", "/proc", "/sys"}
)

// checkWorkdir checks that a volume can be mounted at the workdir.
func (s *Spec) checkWorkdir() *SpecError {
	if s.Workdir == "" {
		return nil
	}
	if err := checkMountPath("Workdir", s.Workdir); err != nil {
		return err
	}
	if s.Workdir == homeDir || isBelow(homeDir, s.Workdir) {
		return &SpecError{"Workdir", fmt.Sprintf("%q would hide the home directory %s", s.Workdir, homeDir)}
	}
	return nil
}

// checkMountPath checks that a volume can be mounted there without hiding anything
// that every sandbox needs.
func checkMountPath(field, dir string) *SpecError {
	switch {
	case !path.IsAbs(dir), dir != path.Clean(dir), dir == "/":
		return &SpecError{field, fmt.Sprintf("%q is not a directory below / in its shortest form", dir)}
	case strings.Contains(dir, ":"), !utf8.ValidString(dir), strings.ContainsRune(dir, 0):
		return &SpecError{field, fmt.Sprintf("%q has a colon, or is not UTF-8: nothing can be mounted there", dir)}
	case slices.Contains(systemDirs, dir), isKernels(dir):
		return &SpecError{field, fmt.Sprintf("%q is a system directory", dir)}
	case dir == path.Clean(fillDir), isBelow(dir, fillDir):
		return &SpecError{field, fmt.Sprintf("%q is the launcher's", dir)}
	}
	return nil
}

// isKernels reports whether a directory is in one of kernelDirs.
func isKernels(dir string) bool {
	return slices.ContainsFunc(kernelDirs, func(k string) bool { return dir == k || isBelow(dir, k) })
}

// isBelow reports whether a directory is below another. Both are in their shortest
// form.
func isBelow(dir, above string) bool {
	return strings.HasPrefix(dir, strings.TrimSuffix(above, "/")+"/") && dir != above
}

// checkEnv checks that the environment fits into the one variable that carries it
// in a pod.
func (s *Spec) checkEnv() *SpecError {
	size := 0
	for _, v := range s.Env {
		if size += len(v) + 1; size > maxPodEnv {
			return &SpecError{"Env", fmt.Sprintf("has more than %d bytes in all, which a pod cannot take", maxPodEnv)}
		}
	}
	return nil
}

func (p *Pod) checkAccount() *SpecError {
	if p.ServiceAccount != "" {
		if problems := validation.IsDNS1123Subdomain(p.ServiceAccount); len(problems) > 0 {
			return &SpecError{"Pod.ServiceAccount", fmt.Sprintf("%q: %s", p.ServiceAccount, problems[0])}
		}
	}
	return nil
}

// checkMain checks the command that runs beside the agent.
func (p *Pod) checkMain() *SpecError {
	if len(p.Main) > 0 && p.Main[0] == "" {
		return &SpecError{"Pod.Main", "has an empty command"}
	}
	size := 0
	for _, arg := range p.Main {
		if !utf8.ValidString(arg) || strings.ContainsRune(arg, 0) {
			return &SpecError{"Pod.Main", fmt.Sprintf("has %q, which is not UTF-8 without NUL: a pod cannot have it", arg)}
		}
		if size += len(arg); size > maxPodMain {
			return &SpecError{"Pod.Main", fmt.Sprintf("has more than %d bytes in all, which a pod cannot take", maxPodMain)}
		}
	}
	return nil
}

func (p *Pod) checkMeta() *SpecError {
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		if err := checkKey("Pod.Labels", name); err != nil {
			return err
		}
		if problems := validation.IsValidLabelValue(p.Labels[name]); len(problems) > 0 {
			return &SpecError{"Pod.Labels", fmt.Sprintf("has %s=%q: %s", name, p.Labels[name], problems[0])}
		}
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(p.Annotations)) {
		if err := checkKey("Pod.Annotations", name); err != nil {
			return err
		}
		if size += len(name) + len(p.Annotations[name]); size > maxAnnotations {
			return &SpecError{"Pod.Annotations", fmt.Sprintf("have more than %d bytes in all", maxAnnotations)}
		}
	}
	return nil
}

// checkNotes checks that the notes about the Spec fit into the annotations of the
// pod, and that the pod itself fits into those of its claim.
func (s *Spec) checkNotes() *SpecError {
	pod, problem := patched(manifest(s, "", nil, time.Time{}), s.Pod.Patch)
	if problem != nil {
		return problem
	}
	size := 0
	for name, value := range pod.Annotations {
		size += len(name) + len(value)
	}
	if size > maxNotes {
		return &SpecError{"Pod", fmt.Sprintf("needs %d bytes of annotations, one of which repeats the labels, the patch and other fields: at most %d fit", size, maxNotes)}
	}
	if s.Pod.Workspace.Keep {
		if size := noteSize(pod) + len(pod.Annotations[podmeta.AnnotationLabels]); size > maxNotes {
			return &SpecError{"Pod.Workspace.Keep", fmt.Sprintf("needs the pod in an annotation, with its environment: that takes %d bytes, and at most %d fit", size, maxNotes)}
		}
	}
	return nil
}

// checkKey checks the name of a label or annotation.
func checkKey(field, name string) *SpecError {
	if problems := validation.IsQualifiedName(name); len(problems) > 0 {
		return &SpecError{field, fmt.Sprintf("has the name %q: %s", name, problems[0])}
	}
	if strings.HasPrefix(name, podmeta.Prefix) || name == podmeta.LabelManagedBy {
		return &SpecError{field, fmt.Sprintf("has %s, which is the launcher's", name)}
	}
	return nil
}

func (p *Pod) checkResources() *SpecError {
	for name, list := range map[string]corev1.ResourceList{"requests": p.Resources.Requests, "limits": p.Resources.Limits} {
		for _, resource := range slices.Sorted(maps.Keys(list)) {
			if q := list[resource]; q.Sign() < 0 {
				return &SpecError{"Pod.Resources", fmt.Sprintf("has %s of %s=%s, which is negative", name, resource, q.String())}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Resources.Requests)) {
		request := p.Resources.Requests[name]
		if limit, ok := p.Resources.Limits[name]; ok && !limit.IsZero() && request.Cmp(limit) > 0 {
			return &SpecError{"Pod.Resources", fmt.Sprintf("requests %s=%s, which is over the limit of %s", name, request.String(), limit.String())}
		}
	}
	return nil
}

func (s *Spec) checkChoices() *SpecError {
	for _, c := range []struct {
		field, value string
		words        []string
	}{
		{"Pod.Profile", string(s.Pod.Profile), []string{string(Restricted), string(Baseline)}},
		{"Pod.Confine", s.Pod.Confine, confineLevels},
		{"Take.OnStale", string(s.Take.OnStale), []string{string(StaleError), string(StaleRecreate)}},
		{"Take.OnDrift", string(s.Take.OnDrift), []string{string(DriftSay), string(DriftError)}},
	} {
		if c.value != "" && !slices.Contains(c.words, c.value) {
			return &SpecError{c.field, fmt.Sprintf("is %q: it is %s", c.value, strings.Join(c.words, " or "))}
		}
	}
	return nil
}

func (p *Pod) checkDeadline() *SpecError {
	if d := p.ActiveDeadline; d < 0 || d > 0 && d < time.Second || d > maxActiveDeadline {
		return &SpecError{"Pod.ActiveDeadline", fmt.Sprintf("is %v: it is between 1s and %v", d, maxActiveDeadline)}
	}
	return nil
}

// checkNoPod returns an error if a Spec asks for something that only a pod has.
func (s *Spec) checkNoPod() error {
	for _, part := range []any{s.Pod, s.Take} {
		v := reflect.ValueOf(part)
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				return &SpecError{v.Type().Name() + "." + v.Type().Field(i).Name, "is set, but the local launcher makes no pods"}
			}
		}
	}
	return nil
}
