//go:build !race

package podagent_test

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestBuildsEverywhere builds podagent for Linux and the orchestrator for every
// system that it supports. The orchestrator needs only one architecture for each
// system, because none of its code is specific to both. Except at full size, it
// only checks the types for other systems and architectures than this one.
func TestBuildsEverywhere(t *testing.T) {
	for _, target := range []string{
		"podagent linux/amd64", "podagent linux/arm64",
		"orchestrator linux/amd64", "orchestrator darwin/arm64", "orchestrator windows/amd64",
	} {
		t.Run(strings.ReplaceAll(target, "/", "-"), func(t *testing.T) {
			program, platform, _ := strings.Cut(target, " ")
			system, arch, _ := strings.Cut(platform, "/")
			own := system == runtime.GOOS && arch == runtime.GOARCH
			if !own && os.Getenv("PODAGENT_TEST_FULL") == "" {
				typeCheck(t, program, "GOOS="+system, "GOARCH="+arch)
				return
			}
			path := filepath.Join(t.TempDir(), program)
			build(t, program, path, "GOOS="+system, "GOARCH="+arch)
			checkPaths(t, path)
			if system == "linux" {
				checkStatic(t, path)
			}
			if own {
				checkVersion(t, path)
				if program == "orchestrator" {
					checkImage(t, path)
				}
			}
		})
	}
}

// checkPaths checks that a program does not contain the path of this directory.
func checkPaths(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(dir)) {
		t.Error("it contains the path of the directory it was built in")
	}
}

// checkStatic checks that a Linux program needs no shared library.
func checkStatic(t *testing.T, path string) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if libs, err := file.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("it needs %v (%v), but should be static", libs, err)
	}
}

func checkVersion(t *testing.T, path string) {
	t.Helper()
	out, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v1.2.3-test") {
		t.Errorf("version: %v: %s", err, out)
	}
}

// checkImage checks that the orchestrator uses its built-in image unless the
// environment names another.
func checkImage(t *testing.T, path string) {
	t.Helper()
	for name, want := range map[string]string{"": builtInImage, "registry.example/other:1": "registry.example/other:1"} {
		cmd := exec.Command(path, "settings", "--config", os.DevNull)
		cmd.Env = append(cmd.Environ(), "PODAGENT_IMAGE="+name)
		out, err := cmd.Output()
		if err != nil || !regexp.MustCompile(`(?m)^image +`+want+` `).Match(out) {
			t.Errorf("with PODAGENT_IMAGE=%s: %v: %s", name, err, out)
		}
	}
}
