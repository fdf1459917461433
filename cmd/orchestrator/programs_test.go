package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// programs is the directory of the programs; it is empty until a test needs them.
var programs string

func TestMain(m *testing.M) {
	code := m.Run()
	if programs != "" {
		_ = os.RemoveAll(programs)
	}
	os.Exit(code)
}

// buildPrograms returns the directory of the programs, which include the server
// that scripts start in sandboxes. All tests share it.
func buildPrograms(t *testing.T) string {
	t.Helper()
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	return programs
}

var buildOnce = sync.OnceValue(func() (err error) {
	if programs, err = os.MkdirTemp("", "programs"); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", programs, "../podagent", ".", "../../test/e2e/testdata/server", "./testdata/webserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return nil
})
