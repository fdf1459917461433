// Package clients_test runs the tests of the clients in other languages, each a program of
// its own in testdata, against a gateway over local sandboxes.
package clients_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// hung bounds a run, which takes seconds. The installation of packages takes minutes on a
// machine that is busy with other tests.
const hung = 10 * time.Minute

// token is the tenant's.
const token = "the-token-of-acme-for-tests"

// serve serves a gateway over local sandboxes, and returns the environment that leads
// clients there.
func serve(t *testing.T) []string {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %x\n", sha256.Sum256([]byte(token)))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateway.New(gateway.Options{Launcher: launchertest.Local(t), Tenants: &gateway.Keys{Path: keys}})
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return append(os.Environ(), "PODAGENT_GATEWAY="+server.URL, "PODAGENT_GATEWAY_TOKEN="+token)
}

// run runs a program of the tests, which must succeed. Its output goes to out.
func run(t *testing.T, dir string, env []string, out io.Writer, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = out, t.Output()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
}

// copyInto copies a directory of the repository into dir.
func copyInto(t *testing.T, dir, from string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
