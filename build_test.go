//go:build !race

package podagent_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildsEverywhere builds the orchestrator for every system that its users
// have, and podagent for Linux.
func TestBuildsEverywhere(t *testing.T) {
	for _, target := range []string{
		"podagent linux/amd64", "podagent linux/arm64",
		"orchestrator linux/amd64", "orchestrator linux/arm64",
		"orchestrator darwin/amd64", "orchestrator darwin/arm64",
		"orchestrator windows/amd64", "orchestrator windows/arm64",
	} {
		t.Run(strings.ReplaceAll(target, "/", "-"), func(t *testing.T) {
			program, platform, _ := strings.Cut(target, " ")
			system, arch, _ := strings.Cut(platform, "/")
			build(t, program, filepath.Join(t.TempDir(), program), "GOOS="+system, "GOARCH="+arch)
		})
	}
}

func TestBinariesAreStaticAndCarryTheirVersion(t *testing.T) {
	for _, program := range []string{"podagent", "orchestrator"} {
		path := filepath.Join(t.TempDir(), program)
		build(t, program, path)
		file, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if libs, err := file.ImportedLibraries(); err != nil || len(libs) > 0 {
			t.Errorf("%s needs %v (%v), but is to be static", program, libs, err)
		}
		out, err := exec.Command(path, "version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "v1.2.3-test") {
			t.Errorf("%s version: %v: %s", program, err, out)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if dir, _ := os.Getwd(); strings.Contains(string(data), dir) {
			t.Errorf("%s holds the path of the directory it was built in", program)
		}
	}
}
