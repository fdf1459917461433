package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/pkg/launcher"
)

// Volume is a claim, or directories of one, that a tenant's sandboxes may mount.
//
// A node follows symbolic links on the way to the directory that it mounts, within the claim. So
// a sandbox that can write a directory above one that is mounted later could lead that mount to
// the files of other tenants. This is why all directories of a volume are equally deep, and why
// volumes that lie in each other are refused ([CheckPolicies]).
type Volume struct {
	Name  string `json:"name"`  // what a create calls it
	Claim string `json:"claim"` // the PersistentVolumeClaim
	// Prefix is the directory of the claim that is the tenant's, such as org/{tenant}: in it,
	// {tenant} stands for the tenant's name. Empty is the whole claim.
	Prefix string `json:"prefix,omitempty"`
	// Depth is how many components a create's path below the prefix has: with 0 it has none, and
	// mounts the prefix itself. It must not change while the claim has files of sandboxes.
	Depth    int  `json:"depth,omitempty"`
	ReadOnly bool `json:"read_only,omitempty"` // it is mounted read-only, whatever a create says
}

// maxDepth is more components than anybody names.
const maxDepth = 16

// component is what a component of a path in a claim is like. None is "..", and none begins with a
// dot: some storages keep old versions of files in such directories.
var component = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}$`)

const componentRule = "up to 63 letters, digits, dots, hyphens and underscores, with no dot at the beginning"

// check returns what is wrong with a volume.
func (v *Volume) check() error {
	problems := validation.IsDNS1123Subdomain(v.Claim)
	switch {
	case CheckName(v.Name) != nil:
		return errors.New("the name has other than lowercase letters, digits and single hyphens")
	case len(problems) > 0:
		return fmt.Errorf("the claim %q: %s", v.Claim, problems[0])
	case v.Depth < 0 || v.Depth > maxDepth:
		return fmt.Errorf("the depth is %d: it is between 0 and %d", v.Depth, maxDepth)
	}
	for _, c := range components(v.prefixOf("t")) {
		if !component.MatchString(c) {
			return fmt.Errorf("the prefix has the component %q: it has %s, or {tenant}", c, componentRule)
		}
	}
	return nil
}

// prefixOf returns the tenant's directory of the claim; "" is the claim.
func (v *Volume) prefixOf(tenant string) string {
	return strings.TrimSuffix(strings.ReplaceAll(v.Prefix, "{tenant}", tenant), "/")
}

// components returns those of a relative path, which has none if it is empty.
func components(p string) []string {
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// directory returns the directory of the claim at a tenant's path: it is always below the prefix,
// by Depth components.
func (v *Volume) directory(tenant, below string) (string, error) {
	parts := components(below)
	for _, c := range parts {
		if !component.MatchString(c) {
			return "", invalid("volumes: the path %q has the component %q: it has %s", below, c, componentRule)
		}
	}
	if len(parts) != v.Depth {
		return "", notAllowed("volumes: the path %q has %d components: in the volume %q it has %d", below, len(parts), v.Name, v.Depth)
	}
	return path.Join(v.prefixOf(tenant), below), nil
}

// mounted is a tenant's volume.
type mounted struct {
	tenant string
	Volume
	prefix []string // the components of the tenant's prefix
}

func newMounted(tenant string, v Volume) *mounted {
	return &mounted{tenant, v, components(v.prefixOf(tenant))}
}

// deep is how many components of the claim there are on the way to a directory, with itself.
func (v *mounted) deep() int { return len(v.prefix) + v.Depth }

// way returns the directories on the way to the prefix, the claim first, the prefix last.
func (v *mounted) way() []string {
	way := []string{v.Claim}
	for i, c := range v.prefix {
		way = append(way, way[i]+"/"+c)
	}
	return way
}

// deeper returns the deeper of two volumes, of which either may be nil.
func deeper(a, b *mounted) *mounted {
	if a == nil || b != nil && b.deep() > a.deep() {
		return b
	}
	return a
}

// checkNesting refuses volumes of which a sandbox could write a directory above one of another
// volume, of the same tenant or not. Below their prefixes, any component may follow: so a volume
// that is deeper in the claim counts if one of both prefixes is on the way to the other.
func checkNesting(all []*mounted) error {
	at, in := map[string]*mounted{}, map[string]*mounted{} // the deepest with this prefix, and with one on whose way this is
	for _, v := range all {
		way := v.way()
		for _, dir := range way {
			in[dir] = deeper(in[dir], v)
		}
		prefix := way[len(way)-1]
		at[prefix] = deeper(at[prefix], v)
	}
	for _, v := range all {
		way := v.way()
		below := in[way[len(way)-1]]
		for _, dir := range way {
			below = deeper(below, at[dir])
		}
		if !v.ReadOnly && below.deep() > v.deep() {
			return fmt.Errorf("volume %q of tenant %q can write directories above those of volume %q of tenant %q: they must be equally deep in their claim, or beside each other",
				v.Name, v.tenant, below.Name, below.tenant)
		}
	}
	return nil
}

// VolumeMount is a volume that a create asks for.
type VolumeMount struct {
	Name     string `json:"name" maxLength:"36" doc:"the volume's name, as the tenant's policy has it"`
	Path     string `json:"path,omitempty" maxLength:"1023" doc:"the directory of the volume, made if it is missing" example:"job-1"`
	Mount    string `json:"mount" maxLength:"1023" doc:"the absolute path in the sandbox" example:"/data"`
	ReadOnly bool   `json:"read_only,omitempty" doc:"mount it so that nothing in the sandbox can change it"`
}

// addVolumes mounts what a create asks for.
func (o *order) addVolumes() error {
	pod := &o.spec.Pod
	pod.Volumes = slices.Clone(pod.Volumes)
	for _, m := range o.Volumes {
		i := slices.IndexFunc(o.policy.Volumes, func(v Volume) bool { return v.Name == m.Name })
		if i < 0 {
			return notAllowed("volumes: %q is not allowed", m.Name)
		}
		v := &o.policy.Volumes[i]
		directory, err := v.directory(o.tenant, m.Path)
		if err != nil {
			return err
		}
		if err := o.checkMount(m.Mount); err != nil {
			return err
		}
		pod.Volumes = append(pod.Volumes, launcher.Volume{Claim: v.Claim, SubPath: directory, Path: m.Mount, ReadOnly: v.ReadOnly || m.ReadOnly})
		if m.Mount == workdirOf(&o.spec) && !o.Keep && o.Storage == "" {
			pod.Workspace = launcher.Workspace{} // the volume takes its place
		}
	}
	return nil
}

// checkMount refuses to mount a tenant's volume where it would open what the gateway's Base has
// read-only: in it, or above it, where a command could move it away. Directly in the workdir that
// is impossible.
func (o *order) checkMount(at string) error {
	for _, d := range o.spec.Pod.ReadOnly {
		if at == d.Path || isBelow(at, d.Path) || isBelow(d.Path, at) && at != workdirOf(&o.spec) {
			return notAllowed("volumes: nothing can be mounted at %q, because %q is read-only", at, d.Path)
		}
	}
	return nil
}

// isBelow reports whether a directory is below another. Both are in their shortest form.
func isBelow(dir, above string) bool { return strings.HasPrefix(dir, above+"/") }

// workdirOf returns where commands run in a pod.
func workdirOf(spec *launcher.Spec) string { return cmp.Or(spec.Workdir, "/workspace") }
