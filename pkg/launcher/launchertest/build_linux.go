package launchertest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// agentVariable names a podagent that was built for these tests, for a machine without Go.
const agentVariable = "PODAGENT_TEST_AGENT"

// buildAgent builds podagent, once per test program. The binary stays in the user's
// cache directory, where the next build replaces it.
var buildAgent = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(agentVariable); path != "" {
		return path, nil
	}
	path, err := agentPath()
	if err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	built := filepath.Join(scratch, "podagent")
	// Go leaves a binary alone that is up to date, so that only the first test program links it.
	_ = copyFile(built, path) // the first one has none
	args := []string{"build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", built}
	env := []string{"CGO_ENABLED=0", "GOEXPERIMENT=simd"}
	if raced {
		args, env = append(args, "-race"), []string{"CGO_ENABLED=1"}
	}
	cmd := exec.Command("go", append(args, "github.com/podagent/podagent/cmd/podagent")...)
	cmd.Env = append(cmd.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building podagent: %w\n%s", err, out)
	}
	// Test programs that run at the same time replace it by an equal one.
	return path, os.Rename(built, path)
})

// agentPath returns the path of the agent. It differs per testing module, because
// another module may use other source, and for the race detector.
func agentPath() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	dir, name := filepath.Join(cache, "podagent", "launchertest"), fmt.Sprintf("podagent-%x", sha256.Sum256(module))[:24]
	if raced {
		name += "-race"
	}
	return filepath.Join(dir, name), os.MkdirAll(dir, 0o700)
}

// copyFile copies a program.
func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o700)
}
