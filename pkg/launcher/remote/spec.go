package remote

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

// create is the body that asks a gateway for a sandbox.
type create struct {
	ID       string            `json:"id"`
	Image    string            `json:"image,omitempty"`
	Env      []string          `json:"env,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Lifetime int64             `json:"lifetime_seconds,omitempty"`
	Idle     int64             `json:"idle_seconds,omitempty"`
	IdleBy   string            `json:"idle,omitempty"`
	Keep     bool              `json:"keep,omitempty"`
	Pool     string            `json:"pool,omitempty"`
	CPU      string            `json:"cpu,omitempty"`
	Memory   string            `json:"memory,omitempty"`
	Storage  string            `json:"storage,omitempty"`
	Git      *gitSource        `json:"git,omitempty"`
	Volumes  []volume          `json:"volumes,omitempty"`
}

type gitSource struct {
	URL      string `json:"url"`
	Ref      string `json:"ref,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

type volume struct {
	Name     string `json:"name"`
	Path     string `json:"path,omitempty"`
	Mount    string `json:"mount"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// createOf returns what asks for the sandbox of a Spec, or a *[launcher.SpecError] for the first field
// that a gateway cannot be asked for.
func createOf(spec *launcher.Spec) (*create, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.ID != "" && !isName(spec.ID) {
		return nil, &launcher.SpecError{Field: "ID", Msg: fmt.Sprintf("is %.100q: through a gateway it has up to %d lowercase letters, digits and single hyphens, with no hyphen at its ends", spec.ID, nameLimit)}
	}
	pod, r := &spec.Pod, &spec.Pod.Resources
	body := &create{
		ID: spec.ID, Image: pod.Image, Env: spec.Env, Labels: spec.Labels, Keep: pod.Workspace.Keep, Pool: spec.Take.Pool,
		Lifetime: wholeSeconds(pod.Lifetime), Idle: wholeSeconds(pod.IdleTimeout),
		CPU: amount(r.Limits, corev1.ResourceCPU), Memory: amount(r.Limits, corev1.ResourceMemory), Storage: text(pod.Workspace.Size),
	}
	if pod.IdleIgnoresCommands {
		body.IdleBy = "calls"
	}
	if g := spec.Git; g != nil {
		body.Git = &gitSource{g.URL, g.Ref, g.Username, g.Password}
	}
	for _, v := range pod.Volumes {
		body.Volumes = append(body.Volumes, volume{v.Claim, v.SubPath, v.Path, v.ReadOnly})
	}
	return body, checkRest(*spec)
}

// amount returns a limit as text; empty if there is none.
func amount(limits corev1.ResourceList, name corev1.ResourceName) string {
	q, ok := limits[name]
	if !ok {
		return ""
	}
	return q.String()
}

// text returns a size as text; empty if it is the default.
func text(q resource.Quantity) string {
	if q.IsZero() {
		return ""
	}
	return q.String()
}

// checkRest refuses a Spec with a field that a create has no place for. It takes out of its copy what has
// one, and what only this side needs: so no field of a Spec is left out in silence.
func checkRest(spec launcher.Spec) error {
	pod, take := &spec.Pod, &spec.Take
	for name, limit := range pod.Resources.Limits {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory || limit.Sign() <= 0 {
			return &launcher.SpecError{Field: "Pod.Resources", Msg: fmt.Sprintf("has the limit %s=%s: a gateway can be asked for limits of cpu and memory, which are not 0", name, limit.String())}
		}
	}
	if pod.Workspace.Size.Sign() < 0 {
		return &launcher.SpecError{Field: "Pod.Workspace", Msg: "has a Size without bound, which a gateway cannot be asked for"}
	}
	if take.OnStale == launcher.StaleError {
		take.OnStale = ""
	}
	if take.OnDrift == launcher.DriftSay {
		take.OnDrift = ""
	}
	switch {
	case take.ReadyTimeout < 0:
		return &launcher.SpecError{Field: "Take.ReadyTimeout", Msg: fmt.Sprintf("is %v: it must not be negative", take.ReadyTimeout)}
	case spec.Git != nil && spec.Git.Timeout != 0:
		return notAsked("Git.Timeout")
	case spec.Git != nil && spec.Git.Before != nil:
		return notAsked("Git.Before")
	}
	spec.ID, spec.Env, spec.Labels, spec.OnClose, spec.Git, take.Pool, take.ReadyTimeout = "", nil, nil, "", nil, "", 0
	pod.Image, pod.Volumes, pod.Lifetime, pod.IdleTimeout, pod.IdleIgnoresCommands, pod.Resources.Limits = "", nil, 0, 0, false, nil
	pod.Workspace.Size, pod.Workspace.Keep = resource.Quantity{}, false
	if field := firstSet(reflect.ValueOf(spec), ""); field != "" {
		return notAsked(field)
	}
	return nil
}

func notAsked(field string) error {
	return &launcher.SpecError{Field: field, Msg: "is not for sandboxes of a gateway, which decides it"}
}

// inner are the structs of a Spec whose fields have names of their own in a [launcher.SpecError].
var inner = map[string]bool{"": true, "Pod": true, "Take": true}

// firstSet returns the name of the first field in a struct that is not empty.
func firstSet(v reflect.Value, name string) string {
	for i := range v.NumField() {
		of, field := v.Type().Field(i), v.Field(i)
		if !of.IsExported() || isEmpty(field) {
			continue
		}
		full := of.Name
		if name != "" {
			full = name + "." + full
		}
		if inner[full] {
			return firstSet(field, full)
		}
		return full
	}
	return ""
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !isEmpty(v.Field(i)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}
