package gateway

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Policy is what a tenant may do. The zero value allows what the gateway's own Base is like, as
// often as the tenant wants, and nothing else: no other image or pool, and no volume.
type Policy struct {
	Quota Quota `json:"quota"`
	// Images are patterns of the container images that are allowed beside Base's own. A * stands
	// for any characters but slashes, ** between slashes for any number of components: "**" allows
	// all. A pattern without a tag and a digest allows all of the repository's. One with a tag
	// allows that tag alone, without a digest; one with a digest that digest, whatever the tag:
	// the cluster ignores it then. Names count as they are written: python is not
	// docker.io/library/python.
	Images []string `json:"images,omitempty"`
	// Pools are patterns of the pools that are allowed beside Base's own: "*" allows all.
	Pools []string `json:"pools,omitempty"`
	// Volumes are those that sandboxes may mount, each with a name of its own.
	Volumes []Volume `json:"volumes,omitempty"`
	// Max bounds a single sandbox.
	Max Max `json:"max"`
	// Egress, unless nil, is what sandboxes reach by the gateways.
	Egress *Egress `json:"egress,omitempty"`
	// Rate and Streams hold for each gateway by itself. Streams is how many requests may be under
	// way at once; zero is 512.
	Rate    Rate `json:"rate"`
	Streams int  `json:"streams"`
	// Budgets are those of keys, by [Caller].Key. Keys of the same name share one.
	Budgets map[string]Budget `json:"-"`
}

// Max bounds a single sandbox: a create that asks for more is refused, and one that does not ask
// gets what Base says, or the bound if that is less. Zero is no bound.
type Max struct {
	CPU     resource.Quantity `json:"cpu,omitzero"`     // the limit of its processors
	Memory  resource.Quantity `json:"memory,omitzero"`  // the limit of its memory, in bytes
	Storage resource.Quantity `json:"storage,omitzero"` // the size of its workspace, in bytes
	// Lifetime is how far ahead a create or a later change may put a sandbox's end.
	Lifetime Duration `json:"lifetime,omitzero"`
	Idle     Duration `json:"idle,omitzero"` // how long it may be idle
}

// Duration is a time such as "90m", as [time.ParseDuration] reads it.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// everything is the policy of who may do everything, and need leave nothing for others.
var everything = Policy{Images: []string{"**"}, Pools: []string{"*"}, Streams: math.MaxInt}

// CheckPolicies returns what is wrong with the policies of all tenants, by their names: a pattern or
// a bound that cannot be, or volumes that lie in each other (see [Volume]).
func CheckPolicies(byTenant map[string]Policy) error {
	var volumes []*mounted
	for _, tenant := range slices.Sorted(maps.Keys(byTenant)) {
		policy := byTenant[tenant]
		if err := policy.check(); err != nil {
			return fmt.Errorf("tenant %q: %w", tenant, err)
		}
		for _, v := range policy.Volumes {
			volumes = append(volumes, newMounted(tenant, v))
		}
	}
	return checkNesting(volumes)
}

// check returns what is wrong with a policy by itself.
func (p *Policy) check() error {
	for _, pattern := range p.Images {
		if repository, tag, digest := splitPattern(pattern); pattern == "" || !validPatterns(repository, tag, digest) {
			return fmt.Errorf("images: %q is not a pattern", pattern)
		}
	}
	for _, pattern := range p.Pools {
		if pattern == "" || !validPatterns(pattern) {
			return fmt.Errorf("pools: %q is not a pattern", pattern)
		}
	}
	names := map[string]bool{}
	for _, v := range p.Volumes {
		if err := v.check(); err != nil {
			return fmt.Errorf("volumes: %q: %w", v.Name, err)
		}
		if names[v.Name] {
			return fmt.Errorf("volumes: %q is there twice", v.Name)
		}
		names[v.Name] = true
	}
	if err := p.Max.check(); err != nil {
		return fmt.Errorf("max: %w", err)
	}
	if err := p.Egress.check(); err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	return p.Quota.check()
}

func (m *Max) check() error {
	if m.CPU.Sign() < 0 || m.Memory.Sign() < 0 || m.Storage.Sign() < 0 || m.Lifetime < 0 || m.Idle < 0 {
		return errors.New("a bound is negative")
	}
	return nil
}

func validPatterns(patterns ...string) bool {
	return !slices.ContainsFunc(patterns, func(p string) bool { return !doublestar.ValidatePattern(p) })
}

// matches reports whether a text matches one of the patterns.
func matches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, text) })
}

func match(pattern, text string) bool {
	ok, err := doublestar.Match(pattern, text)
	return ok && err == nil
}

// image is a reference to a container image, by the grammar of OCI's distribution, so that no
// client of a registry reads it otherwise: without components such as "..", which would lead to
// another repository.
var image = regexp.MustCompile(`^((?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]+)?/)?` + // the registry
	`[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)` + // the repository
	`(?::([a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}))?(?:@([a-z0-9]+:[0-9a-f]{32,128}))?$`) // the tag, the digest

// allowsImage reports whether a reference to an image matches one of the policy's patterns.
func (p *Policy) allowsImage(reference string) bool {
	parts := image.FindStringSubmatch(reference)
	return parts != nil && slices.ContainsFunc(p.Images, func(pattern string) bool {
		repository, tag, digest := splitPattern(pattern)
		switch {
		case !match(repository, parts[1]):
			return false
		case digest != "":
			return match(digest, parts[3])
		case tag != "":
			return match(tag, parts[2]) && parts[3] == ""
		}
		return true
	})
}

// splitPattern splits a pattern of images. The tag and the digest may be missing.
func splitPattern(pattern string) (repository, tag, digest string) {
	repository, digest, _ = strings.Cut(pattern, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:i], repository[i+1:]
	}
	if strings.HasSuffix(repository, "/**") {
		repository += "/*" // by itself it matches also what is before the slash
	}
	return repository, tag, digest
}
