package gateway

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

// NewSandbox is what a create asks for. All that is empty is as the gateway has it.
type NewSandbox struct {
	ID        string        `json:"id,omitempty" pattern:"^[a-z0-9]+(-[a-z0-9]+)*$" maxLength:"36" doc:"the sandbox's name; made up if it is missing"`
	Image     string        `json:"image,omitempty" maxLength:"512" doc:"the container image"`
	Env       []string      `json:"env,omitempty" doc:"the environment of commands, as NAME=VALUE"`
	Lifetime  int64         `json:"lifetime_seconds,omitempty" minimum:"5" doc:"when it ends itself, counted from its start"`
	Idle      int64         `json:"idle_seconds,omitempty" minimum:"5" doc:"how long it may be idle before it ends itself"`
	IdleBy    string        `json:"idle,omitempty" enum:"all,calls" doc:"what keeps it from being idle: calls and commands that run, or calls alone; all if it is missing"`
	Keep      bool          `json:"keep,omitempty" doc:"keep its files when its pod ends, so that it can be paused"`
	AutoPause bool          `json:"auto_pause,omitempty" doc:"keep its files, pause when it has been idle for idle_seconds, and resume for a call that works in it"`
	Pool      string        `json:"pool,omitempty" maxLength:"63" doc:"the pool of warm pods to take one from"`
	CPU       string        `json:"cpu,omitempty" maxLength:"16" doc:"how many processors it may use, as a quantity of Kubernetes" example:"500m"`
	Memory    string        `json:"memory,omitempty" maxLength:"16" doc:"how much memory it may use, as a quantity of Kubernetes" example:"2Gi"`
	Storage   string        `json:"storage,omitempty" maxLength:"16" doc:"how much its workspace holds, as a quantity of Kubernetes" example:"10Gi"`
	Git       *GitSource    `json:"git,omitempty" doc:"a repository that is checked out into the workdir; a repeated create brings it up to date"`
	Volumes   []VolumeMount `json:"volumes,omitempty" maxItems:"16" doc:"volumes that the tenant may mount"`

	From        *CheckpointSource `json:"from,omitempty" doc:"a checkpoint of another sandbox: the new one has its files, and is like that one in what the request leaves out of image, pool, env, cpu, memory, storage and allow_hosts, as far as the tenant may"`
	AllowHosts  []string          `json:"allow_hosts,omitzero" nullable:"false" maxItems:"64" doc:"the hosts that it may reach by the gateway, each within what the tenant's sandboxes may: all of these if it is missing" example:"*.example.com:443"`
	PublicPorts []int             `json:"public_ports,omitempty" nullable:"false" maxItems:"10" uniqueItems:"true" doc:"the ports that anybody may call, each from 1 to 65535, at the gateway's domain"`
	AllPublic   bool              `json:"all_public,omitempty" doc:"anybody may call any port, at the gateway's domain"`
	Labels      map[string]string `json:"labels,omitempty" maxProperties:"64" doc:"labels, by which lists can be filtered: names and values in Kubernetes' syntax"`

	// Confined, for faces, keeps commands from ways out that the gateway does not serve: at the level
	// landlock or a stronger one, or no sandbox is made.
	Confined bool `json:"-"`
}

// GitSource is a repository: see [launcher.Git].
type GitSource struct {
	URL      string `json:"url" maxLength:"2048" doc:"where the sandbox finds it" example:"https://git.example.com/team/code.git"`
	Ref      string `json:"ref,omitempty" maxLength:"255" doc:"a branch, tag or commit; the remote's default branch if it is missing"`
	Username string `json:"username,omitempty" maxLength:"255" doc:"for https"`
	Password string `json:"password,omitempty" maxLength:"8192" doc:"for https: a token is one, too. Nothing keeps it"`
}

// order is what a tenant asks for in a create, and the Spec that it becomes. The Spec has of it
// only what the policy allows, and nothing of it becomes another field than those here: a tenant
// sets no labels of the system's, accounts, nodes, protections or patches.
type order struct {
	NewSandbox
	tenant string
	policy *Policy
	spec   launcher.Spec
}

// specOf returns the Spec of what a tenant asks for, but for its ID: base, as far as the tenant may
// not or does not say. A *[Problem] says what is wrong (422) or not allowed (403).
func specOf(base launcher.Spec, tenant string, policy *Policy, body NewSandbox) (launcher.Spec, error) {
	o := order{body, tenant, policy, base}
	o.spec.Env = append(slices.Clone(base.Env), body.Env...)
	o.spec.OnClose = launcher.CloseKeep
	o.spec.Pod.Workspace.Keep = base.Pod.Workspace.Keep || body.Keep || body.AutoPause
	if g := body.Git; g != nil {
		o.spec.Git = &launcher.Git{URL: g.URL, Ref: g.Ref, Username: g.Username, Password: g.Password}
	}
	for _, step := range []func() error{o.setImage, o.setPool, o.addVolumes, o.setTimes, o.setResources, o.setStorage, o.setLabels, o.setEgress} {
		if err := step(); err != nil {
			return launcher.Spec{}, err
		}
	}
	return o.spec, nil
}

func (o *order) setImage() error {
	switch {
	case o.Image == "", o.Image == cmp.Or(o.spec.Pod.Image, launcher.DefaultImage()):
		return nil
	case !image.MatchString(o.Image):
		return invalid("image: %q is not a reference to an image", o.Image)
	case !o.policy.allowsImage(o.Image):
		return notAllowed("image: %q is not allowed", o.Image)
	}
	o.spec.Pod.Image = o.Image
	return nil
}

func (o *order) setPool() error {
	switch {
	case o.Pool == "", o.Pool == o.spec.Take.Pool:
		return nil
	case !matches(o.policy.Pools, o.Pool):
		return notAllowed("pool: %q is not allowed", o.Pool)
	}
	o.spec.Take.Pool = o.Pool
	return nil
}

// setTimes sets when the sandbox ends itself.
func (o *order) setTimes() error {
	pod, most := &o.spec.Pod, o.policy.Max
	if err := setTime("lifetime_seconds", &pod.Lifetime, o.Lifetime, most.Lifetime, cmp.Or(pod.ActiveDeadline, launcher.DefaultActiveDeadline)); err != nil {
		return err
	}
	if err := setTime("idle_seconds", &pod.IdleTimeout, o.Idle, most.Idle, math.MaxInt64); err != nil {
		return err
	}
	if pod.IdleTimeout == 0 && (o.AutoPause || o.IdleBy != "") {
		return invalid("auto_pause and idle need idle_seconds")
	}
	if o.IdleBy != "" {
		pod.IdleIgnoresCommands = o.IdleBy == "calls"
	}
	return nil
}

// setTime sets a time to what is asked for, or keeps it within the bound. Unset, it is as long as
// unset says.
func setTime(name string, t *time.Duration, asked int64, most Duration, unset time.Duration) error {
	if asked != 0 {
		*t = seconds(asked)
		return checkTime(name, *t, most)
	}
	if most > 0 && cmp.Or(*t, unset) > time.Duration(most) {
		*t = time.Duration(most)
	}
	return nil
}

// checkTime refuses a time that is over a tenant's bound.
func checkTime(name string, d time.Duration, most Duration) error {
	if most > 0 && d > time.Duration(most) {
		return notAllowed("%s: %v is not allowed: the most is %v", name, d, time.Duration(most))
	}
	return nil
}

// seconds returns so many seconds, or the longest time.
func seconds(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Second
}

// The least that a sandbox can work with: a smaller amount is mostly a wrong unit.
const (
	minCPU     = "10m"
	minMemory  = "32Mi"
	minStorage = "1Mi"
)

// setResources sets the limits of processors and memory. What the pod requests stays as it is
// without them, unless the limit is less: the operator says how tightly pods are packed.
func (o *order) setResources() error {
	pod := &o.spec.Pod
	pod.Resources = *pod.Resources.DeepCopy()
	for _, r := range []struct {
		name                corev1.ResourceName
		asked               string
		least, usual, ready string
		most                resource.Quantity
	}{
		{corev1.ResourceCPU, o.CPU, minCPU, launcher.DefaultCPULimit, launcher.DefaultCPU, o.policy.Max.CPU},
		{corev1.ResourceMemory, o.Memory, minMemory, launcher.DefaultMemoryLimit, launcher.DefaultMemory, o.policy.Max.Memory},
	} {
		usual, set := pod.Resources.Limits[r.name]
		if !set {
			usual = resource.MustParse(r.usual)
		}
		limit, err := amount(string(r.name), r.asked, r.least, usual, r.most)
		if err != nil {
			return err
		}
		if limit.Cmp(usual) != 0 {
			setLimit(&pod.Resources, r.name, limit, resource.MustParse(r.ready))
		}
	}
	return nil
}

// setLimit sets a limit, and the request that goes with it: usual, unless there is another.
func setLimit(r *corev1.ResourceRequirements, name corev1.ResourceName, limit, usual resource.Quantity) {
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	r.Limits[name] = limit
	if requested, ok := r.Requests[name]; ok {
		usual = requested
	}
	if usual.Cmp(limit) > 0 {
		usual = limit
	}
	r.Requests[name] = usual
}

// hasOwnWorkspace reports whether a sandbox's workspace is a volume of its own: no volume of the Spec is
// in its place.
func hasOwnWorkspace(spec *launcher.Spec) bool {
	return !slices.ContainsFunc(spec.Pod.Volumes, func(v launcher.Volume) bool { return v.Path == workdirOf(spec) })
}

// setStorage sets how much the workspace holds, if it is the sandbox's own.
func (o *order) setStorage() error {
	w := &o.spec.Pod.Workspace
	if o.Storage == "" && !hasOwnWorkspace(&o.spec) {
		return nil
	}
	usual := w.Size
	switch usual.Sign() {
	case 0:
		usual = resource.MustParse(launcher.DefaultWorkspaceSize)
	case -1:
		usual = resource.Quantity{} // it has no bound
	}
	size, err := amount("storage", o.Storage, minStorage, usual, o.policy.Max.Storage)
	if err == nil && size.Cmp(usual) != 0 {
		w.Size = size
	}
	return err
}

// quantity is an amount as Kubernetes writes it, without the forms that nobody needs, of which
// some take long to read.
var quantity = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,3})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$`)

// amount returns what is asked for, or else what is usual, within the bounds. Of usual and most, 0 is
// no bound.
func amount(name, asked, least string, usual, most resource.Quantity) (resource.Quantity, error) {
	if asked == "" {
		if !most.IsZero() && (usual.IsZero() || usual.Cmp(most) > 0) {
			return most.DeepCopy(), nil
		}
		return usual, nil
	}
	if !quantity.MatchString(asked) {
		return usual, invalid("%s: %q is not a quantity such as 500m, 2 or 4Gi", name, asked)
	}
	q, err := resource.ParseQuantity(asked)
	switch {
	case err != nil:
		return usual, invalid("%s: %q: %v", name, asked, err)
	case q.Cmp(resource.MustParse(least)) < 0:
		return usual, invalid("%s: %s is too little: the least is %s", name, asked, least)
	case !most.IsZero() && q.Cmp(most) > 0:
		return usual, notAllowed("%s: %s is not allowed: the most is %s", name, asked, most.String())
	}
	return q, nil
}

// bodyNames are what a create calls the fields of a Spec.
var bodyNames = map[string]string{
	"Env": "env", "Git.URL": "git.url", "Git.Ref": "git.ref", "Git.Username": "git.username", "Git.Password": "git.password",
	"Pod.Image": "image", "Pod.Resources": "cpu or memory", "Pod.Volumes": "volumes", "Pod.Workspace": "storage, keep or auto_pause", "Pod.Workspace.Keep": "keep",
	"Pod.Lifetime": "lifetime_seconds", "Pod.IdleTimeout": "idle_seconds", "Take.Pool": "pool",
}

// detailOf returns an error's text, in the words of a create if it is about a Spec.
func detailOf(err error) string {
	if wrong, ok := errors.AsType[*launcher.SpecError](err); ok && bodyNames[wrong.Field] != "" {
		return bodyNames[wrong.Field] + " " + wrong.Msg
	}
	return err.Error()
}
