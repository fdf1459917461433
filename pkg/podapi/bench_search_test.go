package podapi_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// BenchmarkGrepInAgentAgainstRg searches a large source tree, which it downloads if
// need be, in a running agent and with rg by turns, and reports the ratios of the
// medians. The time of both is that until all results have arrived here; all
// files are searched.
func BenchmarkGrepInAgentAgainstRg(b *testing.B) {
	dir := sourceTree(b, "k8s.io/kubernetes@v1.36.3")
	s := launchertest.Sandbox(b)
	for _, query := range []struct {
		name, pattern string
		fold          bool
	}{
		{name: "literal", pattern: "PodDisruptionBudget"},
		{name: "fold", pattern: "poddisruptionbudget", fold: true},
		{name: "prefix", pattern: `func New[A-Z]\w+Controller\(`},
		{name: "alternation", pattern: "ErrNotImplemented|EndpointSliceMirroring|kubelet_volume_stats|AdmissionReviewVersions"},
		{name: "word", pattern: "the"},
		{name: "none", pattern: `\w{5}\s+\w{5}\s+\w{5}\s+\w{5}\s+\w{5}`},
	} {
		b.Run(query.name, func(b *testing.B) {
			opts := fsops.GrepOptions{Paths: []string{dir}, Hidden: true, NoIgnore: true, IgnoreCase: query.fold}
			flags := []string{"-n", "-uu", "--no-heading", "--no-unicode"}
			if query.fold {
				flags = append(flags, "-i")
			}
			var agent, first, rg []time.Duration
			for b.Loop() {
				begun := time.Now()
				cmd := exec.Command("rg", append(flags, query.pattern, ".")...)
				cmd.Dir = dir
				if out, err := cmd.Output(); err != nil || len(out) == 0 {
					b.Fatalf("rg: %v: %d bytes", err, len(out))
				}
				rg = append(rg, time.Since(begun))
				whole, match := grepInAgent(b, s.Grep(b.Context(), query.pattern, opts))
				agent, first = append(agent, whole), append(first, match)
			}
			b.ReportMetric(milliseconds(rg), "rg-ms")
			b.ReportMetric(milliseconds(agent), "agent-ms")
			b.ReportMetric(milliseconds(first), "agent-first-ms")
			b.ReportMetric(milliseconds(agent)/milliseconds(rg), "agent/rg")
			b.ReportMetric(0, "ns/op") // of both together, which tells nothing
		})
	}
}

// grepInAgent returns how long all results took, and the first match.
func grepInAgent(b *testing.B, results func(func(fsops.GrepResult, error) bool)) (whole, first time.Duration) {
	begun := time.Now()
	for r, err := range results {
		if err != nil {
			b.Fatal(err)
		}
		if first == 0 && r.Kind == fsops.GrepMatch {
			first = time.Since(begun)
		}
	}
	if first == 0 {
		b.Fatal("the agent found nothing")
	}
	return time.Since(begun), first
}

// milliseconds returns the median.
func milliseconds(d []time.Duration) float64 {
	d = slices.Sorted(slices.Values(d))
	return float64(d[len(d)/2]) / 1e6
}

// sourceTree returns the directory of a module.
func sourceTree(b *testing.B, module string) string {
	b.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = b.TempDir() // outside of this module
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		b.Fatal(err)
	}
	return m.Dir
}
