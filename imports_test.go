// Package podagent_test has the tests of the repository as a whole: which package
// may import which, that everything builds everywhere, and that the README's
// examples run.
package podagent_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/podagent/podagent/"

// mayImport lists the allowed imports. A package that is not listed may not import
// any of ours.
var mayImport = map[string][]string{
	"cmd/podagent":                    {"internal/mark", "cmd/podagent/internal/agent", "cmd/podagent/internal/confine", "cmd/podagent/internal/isolate", "pkg/podapi/isolation", "pkg/podapi/wayout", "cmd/internal/render", "pkg/podapi/wire", "pkg/fsops"},
	"cmd/podagent/internal/admission": {},
	"cmd/podagent/internal/confine":   {"cmd/podagent/internal/landlock"},
	"cmd/podagent/internal/isolate":   {"internal/userns", "cmd/podagent/internal/landlock", "cmd/podagent/internal/proc/spawn/firstlimit", "pkg/podapi/isolation", "pkg/procfs"},
	"cmd/podagent/internal/landlock":  {},
	"cmd/podagent/internal/egress":    {},
	"cmd/podagent/internal/checkout":  {"cmd/podagent/internal/admission", "cmd/podagent/internal/proc", "pkg/fsops"},
	"cmd/podagent/internal/agent":     {"internal/delay", "cmd/podagent/internal/admission", "cmd/podagent/internal/checkout", "cmd/podagent/internal/confine", "cmd/podagent/internal/egress", "cmd/podagent/internal/landlock", "pkg/podapi/isolation", "pkg/podapi/wayout", "cmd/podagent/internal/proc", "cmd/podagent/internal/proc/eintr", "pkg/podapi/wire", "pkg/podapi/podapiv1", "pkg/podapi/tunnel", "pkg/fsops", "pkg/fsops/checkpoint", "pkg/procfs"},

	"cmd/podagent/internal/proc":         {"internal/mark", "cmd/podagent/internal/confine", "cmd/podagent/internal/proc/journal", "cmd/podagent/internal/proc/cgroup", "cmd/podagent/internal/proc/eintr", "cmd/podagent/internal/proc/spawn", "pkg/procfs"},
	"cmd/podagent/internal/proc/journal": {"cmd/podagent/internal/proc/eintr"},
	"cmd/podagent/internal/proc/cgroup":  {"cmd/podagent/internal/proc/eintr"},
	"cmd/podagent/internal/proc/eintr":   {},
	"cmd/podagent/internal/proc/spawn":   {"cmd/podagent/internal/proc/spawn/firstlimit"},

	"cmd/podagent/internal/proc/spawn/firstlimit": {},

	"cmd/internal/render": {"pkg/fsops"},
	"cmd/orchestrator":    {"cmd/orchestrator/internal/settings", "cmd/orchestrator/internal/serving", "cmd/orchestrator/internal/console", "cmd/orchestrator/internal/flagvalue", "cmd/internal/render", "pkg/egress", "pkg/egress/farend", "internal/reread", "pkg/launcher", "pkg/gateway", "pkg/gateway/agentsandbox", "pkg/gateway/audit", "pkg/gateway/console", "pkg/gateway/e2b", "pkg/gateway/metrics", "pkg/gateway/sshport", "pkg/gateway/tracing", "pkg/launcher/agentsandbox", "pkg/launcher/leader", "pkg/launcher/ledger", "pkg/launcher/pool", "pkg/tools", "pkg/tools/mcpserver", "pkg/tools/secret", "pkg/podapi", "pkg/podapi/wire", "pkg/podapi/isolation", "pkg/podapi/wayout", "pkg/fsops", "pkg/fsops/checkpoint", "pkg/launcher/remote", "pkg/sshserver"},

	"cmd/orchestrator/internal/serving":   {"internal/reread"},
	"cmd/orchestrator/internal/settings":  {"cmd/orchestrator/internal/flagvalue"},
	"cmd/orchestrator/internal/console":   {"cmd/internal/render", "pkg/podapi"},
	"cmd/orchestrator/internal/flagvalue": {"pkg/egress", "pkg/launcher", "pkg/podapi", "pkg/tools"},

	"pkg/launcher":                         {"internal/delay", "internal/mark", "internal/userns", "pkg/launcher/podmeta", "pkg/launcher/launchtrace", "pkg/launcher/internal/limitgroup", "pkg/launcher/internal/keys", "pkg/launcher/internal/lockfile", "pkg/launcher/internal/uses", "pkg/launcher/internal/portforward", "pkg/launcher/internal/execstream", "pkg/podapi", "pkg/podapi/wire", "pkg/podapi/isolation", "pkg/podapi/wayout", "pkg/fsops", "pkg/fsops/checkpoint", "pkg/procfs"},
	"pkg/launcher/podmeta":                 {},
	"pkg/launcher/launchtrace":             {},
	"pkg/launcher/pool":                    {"pkg/launcher", "pkg/launcher/podmeta"},
	"pkg/launcher/agentsandbox":            {"internal/delay", "pkg/launcher", "pkg/launcher/podmeta", "pkg/launcher/internal/uses"},
	"pkg/launcher/ledger":                  {"internal/delay", "pkg/launcher/podmeta", "pkg/launcher/internal/lockfile"},
	"pkg/launcher/errclass":                {"pkg/launcher"},
	"pkg/launcher/leader":                  {"internal/delay", "pkg/launcher/podmeta", "pkg/launcher/internal/lockfile"},
	"pkg/launcher/remote":                  {"internal/delay", "pkg/launcher", "pkg/launcher/errclass", "pkg/podapi", "pkg/podapi/podapiv1", "pkg/podapi/wire"},
	"pkg/launcher/internal/limitgroup":     {},
	"pkg/launcher/internal/escapes":        {},
	"pkg/launcher/internal/uses":           {},
	"pkg/launcher/internal/interleave":     {},
	"pkg/launcher/internal/lockfile":       {},
	"pkg/launcher/internal/keys":           {"pkg/podapi", "pkg/podapi/wire", "pkg/podapi/podapiv1"},
	"pkg/launcher/internal/portforward":    {"pkg/launcher/internal/upgrade"},
	"pkg/launcher/internal/execstream":     {"pkg/launcher/internal/upgrade"},
	"pkg/launcher/internal/upgrade":        {},
	"pkg/launcher/launchertest":            {"pkg/launcher", "pkg/podapi", "pkg/podapi/isolation"},
	"pkg/launcher/examples/demo":           {"pkg/launcher", "pkg/podapi", "pkg/podapi/isolation", "pkg/fsops"},
	"pkg/gateway":                          {"internal/halves", "internal/delay", "internal/reread", "pkg/egress", "pkg/egress/farend", "pkg/podapi/wayout", "pkg/gateway/internal/content", "pkg/gateway/internal/peers", "pkg/gateway/internal/rawgrpc", "pkg/gateway/internal/recent", "pkg/gateway/internal/stdin", "pkg/gateway/internal/tries", "pkg/tools", "pkg/tools/mcpserver", "pkg/launcher", "pkg/launcher/errclass", "pkg/podapi", "pkg/podapi/wire", "pkg/podapi/podapiv1", "pkg/fsops", "pkg/fsops/checkpoint"},
	"pkg/gateway/internal/faces":           {"pkg/gateway", "pkg/podapi"},
	"pkg/gateway/internal/content":         {"pkg/podapi", "pkg/fsops"},
	"pkg/gateway/internal/rawgrpc":         {"pkg/podapi/wire"},
	"pkg/gateway/internal/stdin":           {"pkg/podapi"},
	"pkg/gateway/internal/peers":           {"internal/delay"},
	"pkg/gateway/internal/recent":          {},
	"pkg/gateway/internal/tries":           {"pkg/egress"},
	"pkg/gateway/internal/agentwrites":     {},
	"pkg/gateway/agentsandbox":             {"pkg/gateway", "pkg/gateway/internal/agentwrites", "pkg/gateway/internal/content", "pkg/gateway/internal/faces", "pkg/gateway/internal/rawgrpc", "pkg/gateway/internal/stdin", "pkg/launcher", "pkg/podapi", "pkg/fsops"},
	"pkg/gateway/e2b":                      {"pkg/egress", "pkg/gateway", "pkg/gateway/internal/agentwrites", "pkg/gateway/internal/content", "pkg/gateway/internal/faces", "pkg/gateway/internal/stdin", "pkg/launcher", "pkg/podapi", "pkg/fsops", "pkg/fsops/checkpoint"},
	"pkg/gateway/audit":                    {"pkg/gateway", "pkg/fsops"},
	"pkg/gateway/console":                  {"pkg/gateway"},
	"pkg/gateway/console/consoletest":      {},
	"pkg/gateway/metrics":                  {"pkg/egress", "pkg/gateway", "pkg/launcher", "pkg/launcher/launchtrace"},
	"pkg/gateway/sshport":                  {"internal/delay", "pkg/gateway", "pkg/sshserver"},
	"pkg/gateway/tracing":                  {"pkg/gateway", "pkg/launcher", "pkg/launcher/launchtrace"},
	"internal/gittest":                     {},
	"internal/halves":                      {},
	"internal/recipetest":                  {"internal/gittest", "pkg/podapi"},
	"pkg/egress/internal/mask":             {},
	"pkg/egress/internal/authority":        {},
	"pkg/egress/internal/trust":            {"pkg/egress/internal/authority", "pkg/fsops", "pkg/podapi"},
	"pkg/egress/farend":                    {"internal/halves", "internal/delay", "pkg/podapi", "pkg/podapi/podapiv1", "pkg/podapi/wire"},
	"pkg/tools":                            {"pkg/launcher", "pkg/podapi", "pkg/fsops", "pkg/fsops/checkpoint", "pkg/tools/secret"},
	"pkg/sshserver":                        {"internal/halves", "pkg/podapi", "pkg/fsops"},
	"pkg/tools/secret":                     {},
	"pkg/tools/mcpserver":                  {"pkg/tools", "pkg/launcher", "pkg/podapi", "pkg/podapi/wire", "pkg/fsops"},
	"pkg/tools/sessionstore":               {"pkg/fsops"},
	"pkg/tools/examples/host":              {"pkg/fsops/checkpoint", "pkg/tools", "pkg/tools/secret", "pkg/tools/sessionstore", "pkg/launcher", "pkg/podapi"},
	"pkg/podapi":                           {"internal/halves", "internal/delay", "pkg/podapi/podapiv1", "pkg/podapi/wire", "pkg/podapi/tunnel", "pkg/podapi/isolation", "pkg/podapi/wayout", "pkg/fsops", "pkg/fsops/checkpoint"},
	"pkg/podapi/wire":                      {"pkg/podapi/podapiv1", "pkg/fsops", "pkg/fsops/checkpoint"},
	"pkg/podapi/tunnel":                    {"pkg/podapi/podapiv1"},
	"pkg/podapi/podapiv1":                  {},
	"pkg/egress":                           {"internal/halves", "pkg/egress/farend", "pkg/egress/internal/mask", "pkg/egress/internal/authority", "pkg/egress/internal/trust", "pkg/podapi", "pkg/fsops", "pkg/tools/secret"},
	"pkg/podapi/isolation":                 {},
	"pkg/podapi/wayout":                    {},
	"pkg/fsops":                            {"pkg/fsops/internal/globs", "pkg/fsops/internal/ignore", "pkg/fsops/internal/linere", "pkg/fsops/internal/opener", "pkg/fsops/internal/walk", "pkg/fsops/internal/watch", "pkg/procfs"},
	"pkg/procfs":                           {},
	"pkg/procfs/procfstest":                {},
	"pkg/fsops/checkpoint":                 {"pkg/fsops/checkpoint/internal/holes", "pkg/fsops/checkpoint/internal/object", "pkg/fsops/checkpoint/internal/tree", "pkg/fsops/internal/globs"},
	"pkg/fsops/checkpoint/internal/holes":  {"pkg/fsops/checkpoint/internal/object"},
	"pkg/fsops/checkpoint/internal/object": {},
	"pkg/fsops/checkpoint/internal/tree":   {"pkg/fsops/checkpoint/internal/object"},
	"pkg/fsops/internal/globs":             {},
	"pkg/fsops/internal/linere":            {},
	"pkg/fsops/internal/opener":            {"pkg/procfs"},
	"pkg/fsops/internal/walk":              {"pkg/fsops/internal/ignore", "pkg/fsops/internal/opener"},
	"pkg/fsops/internal/ignore":            {"pkg/fsops/internal/opener"},
	"pkg/fsops/internal/watch":             {"pkg/fsops/internal/ignore", "pkg/fsops/internal/opener"},
	"test/contracts":                       {},
	"test/contracts/page":                  {"test/contracts"},
	"test/e2e/internal/harness":            {"pkg/launcher", "pkg/launcher/launchertest", "pkg/launcher/podmeta", "pkg/launcher/pool", "pkg/podapi", "pkg/fsops"},
}

// neverReach lists prefixes of packages that a program or package must not depend
// on, even indirectly.
var neverReach = map[string][]string{
	"cmd/podagent": {"k8s.io/", "sigs.k8s.io/"},
	"pkg/fsops":    {"google.golang.org/", "k8s.io/", "sigs.k8s.io/"},
	"pkg/launcher": {"github.com/prometheus/", "go.opentelemetry.io/", "github.com/danielgtaylor/", "golang.org/x/crypto/ssh"},
	"pkg/gateway":  {"github.com/prometheus/", "go.opentelemetry.io/"},
}

type listed struct {
	ImportPath    string
	Imports, Deps []string
}

func TestImportsGoOneWay(t *testing.T) {
	for _, p := range list(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed := map[string]bool{}
		for _, a := range mayImport[name] {
			allowed[module+a] = true
		}
		for _, i := range p.Imports {
			if strings.HasPrefix(i, module) && !allowed[i] {
				t.Errorf("%s imports %s, which the design does not allow", name, strings.TrimPrefix(i, module))
			}
		}
	}
}

func TestDependenciesThatAreNeverReached(t *testing.T) {
	for name, prefixes := range neverReach {
		for _, p := range list(t, "./"+name) {
			for _, d := range p.Deps {
				for _, prefix := range prefixes {
					if strings.HasPrefix(d, prefix) {
						t.Errorf("%s depends on %s", name, d)
					}
				}
			}
		}
	}
}

// list returns what the go command reports about packages, for Linux.
func list(t *testing.T, pattern string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", pattern)
	cmd.Env = append(cmd.Environ(), "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatalf("no packages match %s", pattern)
	}
	return packages
}
