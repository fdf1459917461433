package e2e

// E2B's SDK for JavaScript, unmodified (testdata/e2bclient), works in pods by way of a gateway.

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/contracts"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The keys of four tenants, in the form that all versions of the SDK take. The poor one may have no sandbox,
// and those of the last one are let out.
const (
	e2bKey      = "e2b_00112233445566778899aabbccddeeff"
	e2bOtherKey = "e2b_ffeeddccbbaa99887766554433221100"
	e2bPoorKey  = "e2b_0123456789abcdef0123456789abcdef"
	e2bOutKey   = "e2b_fedcba9876543210fedcba9876543210"
)

func TestE2BsClientsWork(t *testing.T) {
	t.Parallel()
	client := installE2B(t)
	t.Run("in pods", func(t *testing.T) {
		t.Parallel()
		c := launchertest.NewCluster(t, launcher.Restricted)
		rows, err := contracts.Load("e2b")
		if err != nil {
			t.Fatal(err)
		}
		versions := rows.Versions("e2b", os.Getenv(harness.FullEnv) != "")
		url := serveE2B(t, c, 3*len(versions), len(versions))
		t.Run("versions", func(t *testing.T) {
			for _, version := range versions {
				t.Run(version, func(t *testing.T) {
					t.Parallel()
					walkE2B(t, client, url, version, contracts.Record(t, "e2b", "e2b@"+version), "PODS=true")
				})
			}
		})
		if !t.Failed() { // what failed leaves sandboxes
			awaitNoSandbox(t, c)
		}
	})
	t.Run("with a token file", func(t *testing.T) { // of a gateway as on a laptop
		t.Parallel()
		walkE2B(t, client, serveE2BLocally(t), "2.51.0", t.Output(), "GROUPS=sandboxes")
	})
}

func TestE2BsClientsForkAndSnapshot(t *testing.T) {
	t.Parallel()
	client := installE2B(t)
	rows, err := contracts.Load("e2b")
	if err != nil {
		t.Fatal(err)
	}
	url := serveE2BLocally(t)
	for _, version := range rows.Versions("e2b", os.Getenv(harness.FullEnv) != "") {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			walkE2B(t, client, url, version, contracts.Record(t, "e2b", "e2b@"+version), "GROUPS=snapshots")
		})
	}
	t.Run("in pods", func(t *testing.T) {
		t.Parallel()
		c := launchertest.NewCluster(t, launcher.Restricted)
		walkE2B(t, client, serveE2B(t, c, 5, 0), "2.51.0", t.Output(), "GROUPS=snapshots")
		if !t.Failed() {
			awaitNoSandbox(t, c)
		}
	})
}

// serveE2BLocally starts a gateway for E2B's clients whose sandboxes are processes, and returns its URL.
func serveE2BLocally(t *testing.T) string {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(e2bKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(harness.ProgramFile(t, "cmd/orchestrator"), "gateway", "--backend", "local", "--listen", "127.0.0.1:0", "--token-file", token, "--domain", "sandboxes.test", "--e2b")
	home := t.TempDir()
	programs := filepath.Dir(harness.ProgramFile(t, "cmd/podagent"))
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home, "PATH="+programs+":"+os.Getenv("PATH"))
	return serve(t, cmd)
}

// installE2B returns the directory of the program that walks, and of the server that it starts in sandboxes.
func installE2B(t *testing.T) string {
	t.Helper()
	client := installNode(t, "testdata/e2bclient")
	if err := os.WriteFile(filepath.Join(client, "server"), harness.BuildProgram(t, "test/e2e/testdata/server"), 0o600); err != nil {
		t.Fatal(err)
	}
	return client
}

// serveE2B starts a gateway for E2B's clients, of which so many sandboxes keep their files at a time, and
// returns its URL. The template "named" is an image, and "pooled" a pool in which so many pods wait, if any.
// All pods have these flags, too.
func serveE2B(t *testing.T, c *launchertest.Cluster, kept, warm int, flags ...string) string {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme: {pools: ['*'], keys: [{sha256: %x}]}\n  other: {keys: [{sha256: %x}]}\n  poor: {quota: {cpu: 1m}, keys: [{sha256: %x}]}\n"+
		"  out: {keys: [{sha256: %x}], egress: {allow_hosts: ['a.site.test=127.0.0.1:*', 'b.site.test=127.0.0.1:*']}}\n",
		sha256.Sum256([]byte(e2bKey)), sha256.Sum256([]byte(e2bOtherKey)), sha256.Sum256([]byte(e2bPoorKey)), sha256.Sum256([]byte(e2bOutKey)))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	pods := append(flags, "--requests", "cpu=20m,memory=32Mi", "--workspace-size", "1Gi")
	if class := c.Storage(t, kept+2*warm); class != "" {
		pods = append(pods, "--storage-class", class)
	}
	env := append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image, "XDG_CONFIG_HOME="+t.TempDir())
	program := harness.ProgramFile(t, "cmd/orchestrator")
	if warm > 0 {
		if err := c.Apply(t.Context(), filepath.Join("..", "..", "deploy", "pools-rbac.yaml")); err != nil {
			t.Fatal(err)
		}
		create := exec.Command(program, append([]string{"pool", "create", harness.PoolName, "--size", strconv.Itoa(warm), "--keep-workspace"}, pods...)...)
		create.Env = env
		if out, err := create.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", create, err, out)
		}
		harness.AwaitPool(t, c, warm)
	}
	serving := exec.Command(program, append([]string{
		"gateway", "--listen", "127.0.0.1:0", "--keys", keys, "--domain", "sandboxes.test",
		"--e2b", "--e2b-templates", "named=image:" + c.Image + ",pooled=pool:" + harness.PoolName,
	}, pods...)...)
	serving.Env = env
	return serve(t, serving)
}

// walkE2B walks a version of the SDK by environment variables alone. Out gets what it says of each step.
func walkE2B(t *testing.T, client, url, version string, out io.Writer, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "client.mjs", version, "server")
	cmd.Dir = client
	cmd.Env = append(os.Environ(), "E2B_API_KEY="+e2bKey, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "OTHER_KEY="+e2bOtherKey, "POOR_KEY="+e2bPoorKey, "OUT_KEY="+e2bOutKey)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = out, t.Output()
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}
