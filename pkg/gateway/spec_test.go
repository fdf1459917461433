package gateway

import (
	"errors"
	"math"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

const baseImage = "registry.test/base:1"

func testBase() launcher.Spec {
	return launcher.Spec{
		Env: []string{"BASE=1"},
		Pod: launcher.Pod{
			Image:          baseImage,
			ServiceAccount: "own",
			NodeSelector:   map[string]string{"pool": "sandboxes"},
			Volumes:        []launcher.Volume{{Claim: "tools", Path: "/tools", ReadOnly: true}},
			ReadOnly:       []launcher.ReadOnlyDir{{Path: "/opt/a/b"}, {Path: "/workspace/.own"}},
		},
		Take: launcher.Take{Pool: "own"},
	}
}

func testPolicy() *Policy {
	return &Policy{
		Images: []string{"registry.test/acme/*", "python:3.*", "pinned@sha256:" + strings.Repeat("a", 64)},
		Pools:  []string{"go", "py-*"},
		Volumes: []Volume{
			{Name: "code", Claim: "shared", Prefix: "org/{tenant}/", Depth: 2},
			{Name: "mine", Claim: "whole", Prefix: "org/{tenant}"},
			{Name: "data", Claim: "data", ReadOnly: true},
		},
		Max: Max{
			CPU: resource.MustParse("2"), Memory: resource.MustParse("2Gi"), Storage: resource.MustParse("20Gi"),
			Lifetime: Duration(time.Hour), Idle: Duration(10 * time.Minute),
		},
	}
}

// sameSpec compares Specs but for their labels, one of which is random.
var sameSpec = cmp.Options{cmpopts.IgnoreUnexported(launcher.Spec{}), cmpopts.IgnoreFields(launcher.Spec{}, "Labels")}

func TestCreateSaysWhatItsSpecIs(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	for name, c := range map[string]struct {
		body NewSandbox
		want func(*launcher.Spec)
	}{
		"what is not said is Base's, within the bounds": {NewSandbox{}, func(*launcher.Spec) {}},
		"environment":      {NewSandbox{Env: []string{"A=b", "PODAGENT_WORKDIR=/"}}, func(s *launcher.Spec) { s.Env = []string{"BASE=1", "A=b", "PODAGENT_WORKDIR=/"} }},
		"the base's image": {NewSandbox{Image: baseImage}, func(*launcher.Spec) {}},
		"another image":    {NewSandbox{Image: "python:3.14"}, func(s *launcher.Spec) { s.Pod.Image = "python:3.14" }},
		"the base's pool":  {NewSandbox{Pool: "own"}, func(*launcher.Spec) {}},
		"another pool":     {NewSandbox{Pool: "py-3"}, func(s *launcher.Spec) { s.Take.Pool = "py-3" }},
		"times":            {NewSandbox{Lifetime: 3600, Idle: 5}, func(s *launcher.Spec) { s.Pod.IdleTimeout = 5 * time.Second }},
		"kept files": {NewSandbox{Keep: true, Storage: "20Gi"}, func(s *launcher.Spec) {
			s.Pod.Workspace = launcher.Workspace{Keep: true, Size: resource.MustParse("20Gi")}
		}},
		"the usual size": {NewSandbox{Storage: launcher.DefaultWorkspaceSize}, func(*launcher.Spec) {}},
		"resources":      {NewSandbox{CPU: "1.5", Memory: "1Gi"}, func(s *launcher.Spec) { s.Pod.Resources.Limits = list("1.5", "1Gi") }},
		"less than is requested": {NewSandbox{CPU: "20m", Memory: "64Mi"}, func(s *launcher.Spec) {
			s.Pod.Resources = corev1.ResourceRequirements{Limits: list("20m", "64Mi"), Requests: list("10m", "64Mi")}
		}},
		"volumes": {
			NewSandbox{Volumes: []VolumeMount{{Name: "code", Path: "ws/code", Mount: "/code"}, {Name: "mine", Mount: "/mine", ReadOnly: true}, {Name: "data", Mount: "/data"}}},
			func(s *launcher.Spec) {
				s.Pod.Volumes = append(s.Pod.Volumes,
					launcher.Volume{Claim: "shared", SubPath: "org/acme/ws/code", Path: "/code"},
					launcher.Volume{Claim: "whole", SubPath: "org/acme", Path: "/mine", ReadOnly: true},
					launcher.Volume{Claim: "data", Path: "/data", ReadOnly: true})
			},
		},
		"a repository": {NewSandbox{Git: &GitSource{"https://git.test/a", "main", "u", "p"}}, func(s *launcher.Spec) {
			s.Git = &launcher.Git{URL: "https://git.test/a", Ref: "main", Username: "u", Password: "p"}
		}},
	} {
		want := testBase()
		want.OnClose, want.Pod.Lifetime, want.Pod.IdleTimeout = launcher.CloseKeep, time.Hour, 10*time.Minute
		want.Pod.Resources = corev1.ResourceRequirements{Limits: list("2", "2Gi"), Requests: list(launcher.DefaultCPU, launcher.DefaultMemory)}
		c.want(&want)
		got, err := specOf(testBase(), "acme", testPolicy(), c.body)
		if diff := cmp.Diff(want, got, sameSpec); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// A tenant with no bounds and a base without limits of its own leave the Spec as it is, so that a
// pod of a pool, which was made from the same base, fits.
func TestSpecWithoutBoundsIsTheBase(t *testing.T) {
	want := testBase()
	want.OnClose = launcher.CloseKeep
	got, err := specOf(testBase(), "acme", &Policy{}, NewSandbox{CPU: launcher.DefaultCPULimit, Memory: launcher.DefaultMemoryLimit})
	if diff := cmp.Diff(want, got, sameSpec); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestBaseWithoutLimitsGetsTheBounds(t *testing.T) {
	base := testBase()
	base.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")}
	base.Pod.Workspace.Size = resource.MustParse("-1")
	got, err := specOf(base, "acme", testPolicy(), NewSandbox{})
	if err != nil {
		t.Fatal(err)
	}
	if cpu := got.Pod.Resources.Limits[corev1.ResourceCPU]; cpu.String() != "2" || got.Pod.Workspace.Size.String() != "20Gi" {
		t.Errorf("cpu %s, storage %s", cpu.String(), got.Pod.Workspace.Size.String())
	}
	if cpu := base.Pod.Resources.Limits[corev1.ResourceCPU]; !cpu.IsZero() {
		t.Errorf("the base has changed: cpu %s", cpu.String())
	}
}

func TestVolumeAtTheWorkdirTakesTheWorkspacesPlace(t *testing.T) {
	base := testBase()
	base.Pod.Workspace = launcher.Workspace{Keep: true, Size: resource.MustParse("1Gi")}
	got, err := specOf(base, "acme", testPolicy(), NewSandbox{Volumes: []VolumeMount{{Name: "mine", Mount: "/workspace"}}})
	if err != nil || got.Pod.Workspace.Keep || !got.Pod.Workspace.Size.IsZero() {
		t.Errorf("%v, %+v", err, got.Pod.Workspace)
	}
}

func TestCreateThatIsRefused(t *testing.T) {
	volume := func(name, below, at string) NewSandbox {
		return NewSandbox{Volumes: []VolumeMount{{Name: name, Path: below, Mount: at}}}
	}
	for name, c := range map[string]struct {
		body   NewSandbox
		status int
		detail string
	}{
		"an image":                    {NewSandbox{Image: "alpine:3"}, 403, `image: "alpine:3" is not allowed`},
		"no reference":                {NewSandbox{Image: "registry.test/acme/../other"}, 422, "not a reference"},
		"a pool":                      {NewSandbox{Pool: "gold"}, 403, `pool: "gold" is not allowed`},
		"a lifetime":                  {NewSandbox{Lifetime: 3601}, 403, "lifetime_seconds: 1h0m1s is not allowed: the most is 1h0m0s"},
		"a lifetime beyond all times": {NewSandbox{Lifetime: math.MaxInt64}, 403, "lifetime_seconds"},
		"an idle time":                {NewSandbox{Idle: 601}, 403, "idle_seconds"},
		"processors":                  {NewSandbox{CPU: "2001m"}, 403, "cpu: 2001m is not allowed: the most is 2"},
		"no processors":               {NewSandbox{CPU: "0"}, 422, "cpu: 0 is too little"},
		"a negative amount":           {NewSandbox{CPU: "-1"}, 422, "not a quantity"},
		"memory":                      {NewSandbox{Memory: "3Gi"}, 403, "memory"},
		"a wrong unit":                {NewSandbox{Memory: "100m"}, 422, "memory: 100m is too little"},
		"an amount that takes long":   {NewSandbox{Memory: "1e99999999"}, 422, "not a quantity"},
		"storage":                     {NewSandbox{Storage: "21Gi"}, 403, "storage"},
		"no name of a volume":         {volume("", "", "/data"), 403, `volumes: "" is not allowed`},
		"another's volume":            {volume("theirs", "", "/data"), 403, `volumes: "theirs" is not allowed`},
		"above the depth":             {volume("code", "ws", "/data"), 403, "has 1 components"},
		"the prefix itself":           {volume("code", "", "/data"), 403, "has 0 components"},
		"below the depth":             {volume("mine", "x", "/data"), 403, "has 1 components"},
		"up":                          {volume("code", "../other", "/data"), 422, `component ".."`},
		"up at the end":               {volume("code", "ws/..", "/data"), 422, `component ".."`},
		"itself":                      {volume("code", "./ws", "/data"), 422, `component "."`},
		"an absolute path":            {volume("code", "/etc", "/data"), 422, `component ""`},
		"an empty component":          {volume("code", "ws//code", "/data"), 422, `component ""`},
		"a slash at the end":          {volume("code", "ws/", "/data"), 422, `component ""`},
		"NUL":                         {volume("code", "ws/a\x00b", "/data"), 422, `component "a\x00b"`},
		"a backslash":                 {volume("code", `ws/..\x`, "/data"), 422, "component"},
		"an expansion":                {volume("code", "ws/$(HOME)", "/data"), 422, "component"},
		"old versions":                {volume("code", ".snapshot/x", "/data"), 422, "component"},
		"a long component":            {volume("code", "ws/"+strings.Repeat("x", 64), "/data"), 422, "component"},
		"in what is read-only":        {volume("mine", "", "/opt/a/b/c"), 403, `"/opt/a/b" is read-only`},
		"at what is read-only":        {volume("mine", "", "/opt/a/b"), 403, `"/opt/a/b" is read-only`},
		"above what is read-only":     {volume("mine", "", "/opt"), 403, `"/opt/a/b" is read-only`},
	} {
		_, err := specOf(testBase(), "acme", testPolicy(), c.body)
		p, ok := errors.AsType[*Problem](err)
		class := map[int]string{http.StatusForbidden: "not_allowed", http.StatusUnprocessableEntity: "invalid"}[c.status]
		if !ok || p.Status != c.status || p.Class != class || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: %+v, want %d %s %s", name, err, c.status, class, c.detail)
		}
	}
	for _, body := range []NewSandbox{{Image: "alpine:3"}, {Pool: "go"}, volume("code", "a/b", "/data")} {
		if _, err := specOf(testBase(), "acme", &Policy{}, body); err == nil {
			t.Errorf("the zero policy allows %+v", body)
		}
	}
}

func TestImagesAreAllowedByPatterns(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0f", 32)
	for pattern, refs := range map[string]struct{ allowed, refused []string }{
		"python":                {[]string{"python", "python:3", "python" + digest, "python:3" + digest}, []string{"docker.io/library/python", "python2", "x/python", "python/x"}},
		"python:3.*":            {[]string{"python:3.14"}, []string{"python", "python:2", "python" + digest, "python:3.14" + digest}},
		"python" + digest:       {[]string{"python" + digest, "python:3" + digest}, []string{"python", "python:3", "python@sha256:" + strings.Repeat("00", 32)}},
		"registry.test:5000/*":  {[]string{"registry.test:5000/a", "registry.test:5000/a:1"}, []string{"registry.test:5000/a/b", "registry.test:5001/a", "registry.test:5000"}},
		"registry.test/acme/**": {[]string{"registry.test/acme/a", "registry.test/acme/a/b:1"}, []string{"registry.test/acme", "registry.test/acme:1", "registry.test/acmes/a", "x.test/registry.test/acme/a"}},
		"registry.test/{a,b}:1": {[]string{"registry.test/a:1", "registry.test/b:1"}, []string{"registry.test/c:1", "registry.test/a"}},
		"*":                     {[]string{"alpine", "alpine:3"}, []string{"x/alpine", "registry.test/alpine"}},
		"**":                    {[]string{"alpine", "registry.test:5000/a/b:1" + digest}, []string{"", "a b", "A", "a/../b", "a//b", "/a", "a/", "a:", "a@", "a@sha256:00", "-a", "a\n", "a:1:2", "http://a"}},
	} {
		p := &Policy{Images: []string{pattern}}
		if err := p.check(); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		for _, ref := range refs.allowed {
			if !p.allowsImage(ref) {
				t.Errorf("%s refuses %q", pattern, ref)
			}
		}
		for _, ref := range refs.refused {
			if p.allowsImage(ref) {
				t.Errorf("%s allows %q", pattern, ref)
			}
		}
	}
}

func TestVolumesThatLieInEachOtherAreRefused(t *testing.T) {
	of := func(tenant, prefix string, depth int, readOnly bool) *mounted {
		return newMounted(tenant, Volume{Name: "v", Claim: "shared", Prefix: prefix, Depth: depth, ReadOnly: readOnly})
	}
	other := of("b", "", 0, false)
	other.Claim = "other"
	for name, c := range map[string]struct {
		all     []*mounted
		refused bool
	}{
		"side by side":                  {[]*mounted{of("a", "org/{tenant}", 1, false), of("b", "org/{tenant}/", 1, false)}, false},
		"the same":                      {[]*mounted{of("a", "team", 0, false), of("b", "team", 0, false)}, false},
		"as deep in another way":        {[]*mounted{of("a", "org", 2, false), of("b", "org/b", 1, false)}, false},
		"other claims":                  {[]*mounted{of("a", "org/{tenant}", 1, false), other}, false},
		"one tenant's in each other":    {[]*mounted{of("a", "org/{tenant}", 0, false), of("a", "org/{tenant}", 1, false)}, true},
		"above another tenant's":        {[]*mounted{of("a", "org", 0, false), of("b", "org/{tenant}", 0, false)}, true},
		"perhaps above another's":       {[]*mounted{of("a", "org", 1, false), of("b", "org/{tenant}", 2, false)}, true},
		"above a deeper one alone":      {[]*mounted{of("a", "org", 1, false), of("b", "org/{tenant}", 0, false), of("c", "org/{tenant}", 1, false)}, true},
		"the whole claim":               {[]*mounted{of("b", "org/{tenant}", 0, false), of("a", "", 0, false)}, true},
		"above, but read-only":          {[]*mounted{of("a", "", 0, true), of("b", "org/{tenant}", 0, false)}, false},
		"below, and read-only":          {[]*mounted{of("a", "org", 0, false), of("b", "org/{tenant}", 0, true)}, true},
		"names with a common beginning": {[]*mounted{of("a", "org/a", 0, false), of("ab", "org/ab/x", 0, false)}, false},
	} {
		if err := checkNesting(c.all); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzVolumePathStaysBelowThePrefix(f *testing.F) {
	for _, p := range []string{"", "a", "a/b", "../a", "a/..", "a//b", "/a", "a/./b", "a\\..\\b", "a\x00/b", "a/b/c"} {
		f.Add("acme", p, 2)
	}
	f.Fuzz(func(t *testing.T, tenant, below string, depth int) {
		v := Volume{Name: "v", Claim: "shared", Prefix: "org/{tenant}", Depth: depth}
		if CheckTenant(tenant) != nil || v.check() != nil {
			return
		}
		dir, err := v.directory(tenant, below)
		if err != nil {
			return
		}
		prefix := "org/" + tenant
		if dir != path.Clean(dir) || dir != prefix && !strings.HasPrefix(dir, prefix+"/") || strings.Count(dir, "/") != 1+depth || strings.ContainsAny(dir, "\x00\\:$") {
			t.Errorf("tenant %q, path %q, depth %d: %q", tenant, below, depth, dir)
		}
	})
}

func FuzzImageIsOfTheRepository(f *testing.F) {
	const allowed = "registry.test/acme/"
	for _, s := range []string{allowed + "a:1", allowed + "a@sha256:" + strings.Repeat("0", 64), allowed + "../x", "registry.test/acme", allowed + "/a", "registry.test:1/acme/a"} {
		f.Add(s)
	}
	p := &Policy{Images: []string{allowed + "**"}}
	f.Fuzz(func(t *testing.T, ref string) {
		rest, in := strings.CutPrefix(ref, allowed)
		if p.allowsImage(ref) && (!in || rest == "" || strings.Contains(rest, "..") || strings.Contains(rest, "//") || strings.HasPrefix(rest, "/")) {
			t.Errorf("%q is allowed", ref)
		}
	})
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"", "1", "500m", "4Gi", "1e9", "-1", "0.001", "999999999Ti", "1E"} {
		f.Add(s)
	}
	most := resource.MustParse("8Gi")
	f.Fuzz(func(t *testing.T, asked string) {
		q, err := amount("memory", asked, minMemory, resource.MustParse("4Gi"), most)
		if err == nil && (q.Cmp(most) > 0 || q.Cmp(resource.MustParse(minMemory)) < 0) {
			t.Errorf("%q: %s", asked, q.String())
		}
	})
}

func TestKeysOfTheDocumentationAreValid(t *testing.T) {
	page, err := os.ReadFile("../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	volumes := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(tenants:.*?)```").FindAllStringSubmatch(string(page), -1) {
		file, err := parseKeys([]byte(block[1]))
		if err != nil || len(file.keys)+len(file.ssh.keys) == 0 {
			t.Errorf("%v in:\n%s", err, block[1])
		}
		volumes += len(file.policies["acme"].Volumes)
	}
	if volumes != 2 {
		t.Errorf("there are %d volumes", volumes)
	}
}

func TestOrderIsLikeAnotherSandboxAsFarAsThePolicyAllows(t *testing.T) {
	limits := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}
	}
	other := launcher.Spec{
		Env: []string{"BASE=1", "A=b"},
		Pod: launcher.Pod{
			Image: "python:3.12", Resources: limits("1500m", "1536Mi"), ServiceAccount: "theirs", Profile: "privileged",
			Workspace: launcher.Workspace{Size: resource.MustParse("5Gi")},
		},
		Take: launcher.Take{Pool: "go"},
	}
	with := func(edit func(*launcher.Spec)) launcher.Spec { s := other; edit(&s); return s }
	all := NewSandbox{Image: "python:3.12", Pool: "go", Env: []string{"A=b"}, CPU: "1500m", Memory: "1536Mi", Storage: "5Gi"}
	own := NewSandbox{Image: "registry.test/acme/x", Env: []string{}, CPU: "1", Memory: "1Gi", Storage: "1Gi"}
	bare := NewSandbox{Env: []string{}}
	for name, c := range map[string]struct {
		asked NewSandbox
		other launcher.Spec
		want  NewSandbox
	}{
		"all": {NewSandbox{}, other, all},
		"own": {own, other, own},
		"a pool of its own": {
			NewSandbox{Pool: "py-1", Env: []string{"C=d"}},
			other,
			NewSandbox{Pool: "py-1", Env: []string{"C=d"}, CPU: "1500m", Memory: "1536Mi", Storage: "5Gi"},
		},
		"what is not allowed": {
			bare, with(func(s *launcher.Spec) { s.Pod.Image, s.Take.Pool = "evil:1", "others" }),
			NewSandbox{Env: []string{}, CPU: "1500m", Memory: "1536Mi", Storage: "5Gi"},
		},
		"more than is allowed": {
			NewSandbox{},
			with(func(s *launcher.Spec) {
				s.Pod.Resources, s.Pod.Workspace.Size = limits("64", "1Ti"), resource.MustParse("1Ti")
			}),
			NewSandbox{Image: "python:3.12", Pool: "go", Env: []string{"A=b"}, CPU: "2", Memory: "2Gi", Storage: "20Gi"},
		},
		"no bounds, and odd ones": {
			bare, launcher.Spec{Pod: launcher.Pod{
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1n")}},
				Workspace: launcher.Workspace{Size: resource.MustParse("-1")},
			}}, bare,
		},
	} {
		got := c.asked
		got.addSpec(&c.other, testBase().Env, testPolicy())
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if _, err := specOf(testBase(), "acme", testPolicy(), got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
