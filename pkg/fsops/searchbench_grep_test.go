//go:build linux

package fsops

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// kubernetes is a large source tree that everybody can have: 88 MB in 8,600
// files.
const kubernetes = "k8s.io/kubernetes@v1.36.3"

// grepQueries are the kinds of patterns whose searches take different ways:
// rg gets --no-unicode where Go's classes are ASCII's.
var grepQueries = []struct {
	name, pattern string
	opts          GrepOptions
	flags         []string
}{
	{name: "literal", pattern: "PodDisruptionBudget"},
	{name: "fold", pattern: "poddisruptionbudget", opts: GrepOptions{IgnoreCase: true}, flags: []string{"-i"}},
	{name: "prefix", pattern: `func New[A-Z]\w+Controller\(`, flags: []string{"--no-unicode"}},
	{name: "alternation", pattern: "ErrNotImplemented|EndpointSliceMirroring|kubelet_volume_stats|AdmissionReviewVersions"},
	{name: "words", pattern: `\w{5}\s+\w{5}\s+\w{5}\s+\w{5}\s+\w{5}`, flags: []string{"--no-unicode"}},
	{name: "hex", pattern: "[0-9a-f]{40}"},
}

// BenchmarkGrepAgainstRg runs the same searches as podagent grep, as FS.Grep in
// this process, and as rg, by turns, so that what else the machine does falls
// on all of them, and reports the ratios of the medians: with all files, and
// with ignore rules in force. All write to a pipe.
func BenchmarkGrepAgainstRg(b *testing.B) {
	dir := moduleDir(b, kubernetes)
	podagent := buildPodagent(b)
	for _, query := range grepQueries {
		for _, ignoring := range []bool{false, true} {
			name := query.name
			opts, flags, ours := query.opts, query.flags, []string{}
			if opts.IgnoreCase {
				ours = append(ours, "-i")
			}
			if ignoring {
				name += "/ignoring"
				flags = append(slices.Clone(flags), "--no-require-git")
			} else {
				opts.Hidden, opts.NoIgnore = true, true
				flags, ours = append(slices.Clone(flags), "-uu"), append(ours, "--hidden", "--no-ignore")
			}
			b.Run(name, func(b *testing.B) {
				ways := []grepWay{
					{"rg", func() (int64, time.Duration) {
						return runPiped(b, dir, "rg", append(flags, "-n", "--no-heading", query.pattern, ".")...)
					}},
					{"podagent", func() (int64, time.Duration) {
						return runPiped(b, dir, podagent, append(append([]string{"grep", "-n"}, ours...), query.pattern, ".")...)
					}},
					{"inside", func() (int64, time.Duration) { return grepInside(b, dir, query.pattern, opts) }},
				}
				compareWays(b, ways)
			})
		}
	}
}

// A grepWay is a way to search. It returns how much came out (bytes of a
// process, lines within this one), and how long the first of it took.
type grepWay struct {
	name string
	run  func() (out int64, first time.Duration)
}

// compareWays runs the ways by turns, the first of which is what the others are
// compared with.
func compareWays(b *testing.B, ways []grepWay) {
	took, first := make([][]time.Duration, len(ways)), make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			begun := time.Now()
			out, at := way.run()
			took[i], first[i] = append(took[i], time.Since(begun)), append(first[i], at)
			if out == 0 {
				b.Fatalf("%s found nothing", way.name)
			}
		}
	}
	base := medianOf(took[0])
	for i, way := range ways {
		b.ReportMetric(float64(medianOf(took[i]))/1e6, way.name+"-ms")
		b.ReportMetric(float64(medianOf(first[i]))/1e6, way.name+"-first-ms")
		if i > 0 {
			b.ReportMetric(float64(medianOf(took[i]))/float64(base), way.name+"/"+ways[0].name)
		}
	}
	b.ReportMetric(0, "ns/op") // of all ways together, which tells nothing
}

func medianOf(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// runPiped runs a program and reads its output.
func runPiped(b *testing.B, dir, program string, args ...string) (out int64, first time.Duration) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	pipe, err := cmd.StdoutPipe()
	must(b, err)
	begun := time.Now()
	must(b, cmd.Start())
	buf := make([]byte, 64<<10)
	for {
		n, err := pipe.Read(buf)
		if n > 0 && out == 0 {
			first = time.Since(begun)
		}
		out += int64(n)
		if err == io.EOF {
			break
		}
		must(b, err)
	}
	must(b, cmd.Wait())
	return out, first
}

func grepInside(b *testing.B, dir, pattern string, opts GrepOptions) (out int64, first time.Duration) {
	begun := time.Now()
	for r, err := range New(dir).Grep(context.Background(), pattern, opts) {
		must(b, err)
		if r.Kind != GrepMatch {
			continue
		}
		if out++; out == 1 {
			first = time.Since(begun)
		}
	}
	return out, first
}

// moduleDir returns the directory of a module, which it downloads if it is not
// in the cache.
func moduleDir(b *testing.B, module string) string {
	b.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Stderr = b.TempDir(), os.Stderr // outside of this module
	out, err := cmd.Output()
	must(b, err)
	var m struct{ Dir string }
	must(b, json.Unmarshal(out, &m))
	return m.Dir
}

// buildPodagent builds the program as it is released.
func buildPodagent(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "podagent")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", path, "github.com/podagent/podagent/cmd/podagent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=simd")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatal(fmt.Errorf("cannot build podagent: %w\n%s", err, out))
	}
	return path
}
