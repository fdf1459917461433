package harness

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

// built has the programs that tests have needed so far, each with its lock.
var built sync.Map // of *program

type program struct {
	sync.Mutex
	content []byte
}

// PutProgram writes a program of test/e2e/testdata into a sandbox's workdir.
func PutProgram(t *testing.T, s *launcher.Sandbox, name string) {
	t.Helper()
	if err := s.WriteFile(t.Context(), name, BuildProgram(t, "test/e2e/testdata/"+name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// BuildProgram returns a static program of this module. It is built once; what is built
// already waits for no other.
func BuildProgram(t *testing.T, pkg string) []byte {
	t.Helper()
	v, _ := built.LoadOrStore(pkg, &program{})
	p := v.(*program)
	p.Lock()
	defer p.Unlock()
	if p.content == nil {
		p.content = build(t, pkg)
	}
	return p.content
}

// ProgramFile returns the path of a file of the test's with what BuildProgram returns. A child writes it:
// another that is forked meanwhile would hold a file of this program's open for writing, and so nobody
// could execute it.
func ProgramFile(t *testing.T, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	write := exec.Command("sh", "-c", `cat > "$0" && chmod 700 "$0"`, path)
	write.Stdin = bytes.NewReader(BuildProgram(t, pkg))
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", write, err, out)
	}
	return path
}

func build(t *testing.T, pkg string) []byte {
	t.Helper()
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
	return content
}
