//go:build linux

package fsops

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// BenchmarkGlobAgainstFdAndRg lists the Go files of a large tree by podagent
// glob, fd and rg, by turns, so that what else the machine does falls on all of
// them, and reports the ratios of the medians: with all files, and with ignore
// rules in force. All write to /dev/null. How long podagent takes to start is
// part of it, and reported as well.
func BenchmarkGlobAgainstFdAndRg(b *testing.B) {
	dir := moduleDir(b, kubernetes)
	podagent := buildPodagent(b)
	for _, program := range []string{"fdfind", "rg"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Fatalf("this benchmark compares with %s, which is not installed (Debian's fd-find and ripgrep): %v", program, err)
		}
	}
	for _, test := range []struct {
		name     string
		commands map[string][]string
	}{
		{"all", map[string][]string{
			"glob":         {podagent, "glob", "--sort=none", "**/*.go"},
			"glob-by-name": {podagent, "glob", "**/*.go"},
			"fd":           {"fdfind", "--unrestricted", "--extension", "go"},
			"fd-glob":      {"fdfind", "--unrestricted", "--glob", "*.go"},
			"rg":           {"rg", "-uu", "--files", "--glob", "*.go"},
			"start":        {podagent, "version"},
		}},
		{"ignoring", map[string][]string{
			"glob":         {podagent, "glob", "--sort=none", "--ignore", "**/*.go"},
			"glob-by-name": {podagent, "glob", "--ignore", "**/*.go"},
			"fd":           {"fdfind", "--hidden", "--exclude", ".git", "--extension", "go"},
			"fd-glob":      {"fdfind", "--hidden", "--exclude", ".git", "--glob", "*.go"},
			"rg":           {"rg", "--hidden", "--no-require-git", "--files", "--glob", "*.go"},
			"start":        {podagent, "version"},
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			took := map[string][]time.Duration{}
			for b.Loop() {
				for name, args := range test.commands {
					took[name] = append(took[name], runDiscarded(b, dir, args))
				}
				took["inside"] = append(took["inside"], globInside(b, dir, test.name == "ignoring"))
			}
			median := map[string]float64{}
			for name := range took {
				median[name] = float64(medianOf(took[name]))
				b.ReportMetric(median[name]/1e6, name+"-ms")
			}
			b.ReportMetric(median["glob"]/min(median["fd"], median["fd-glob"]), "glob/fd")
			b.ReportMetric(median["glob"]/median["rg"], "glob/rg")
			b.ReportMetric(median["inside"]/median["rg"], "inside/rg")
			b.ReportMetric(0, "ns/op") // of all together, which tells nothing
		})
	}
}

// runDiscarded runs a command, whose output nobody wants.
func runDiscarded(b *testing.B, dir string, args []string) time.Duration {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	begun := time.Now()
	must(b, cmd.Run())
	return time.Since(begun)
}

func globInside(b *testing.B, dir string, ignoring bool) time.Duration {
	begun := time.Now()
	for _, err := range New(dir).Glob(b.Context(), "**/*.go", GlobOptions{Ignore: ignoring}) {
		must(b, err)
	}
	return time.Since(begun)
}
