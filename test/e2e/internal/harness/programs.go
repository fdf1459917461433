package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

// built has the programs that tests have needed so far.
var built struct {
	sync.Mutex
	programs map[string][]byte
}

// PutProgram writes a program of test/e2e/testdata into a sandbox's workdir.
func PutProgram(t *testing.T, s *launcher.Sandbox, name string) {
	t.Helper()
	if err := s.WriteFile(t.Context(), name, BuildProgram(t, "test/e2e/testdata/"+name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// BuildProgram returns a static program of this module. It is built once.
func BuildProgram(t *testing.T, pkg string) []byte {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if content := built.programs[pkg]; content != nil {
		return content
	}
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/podagent/podagent/"+pkg)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if built.programs == nil {
		built.programs = map[string][]byte{}
	}
	built.programs[pkg] = content
	return content
}
