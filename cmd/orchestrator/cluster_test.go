package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// TestClusterScripts runs the scripts in testdata/cluster with the real
// programs in a real cluster. Each has a namespace and an identity of its own,
// and the rights of deploy/rbac.yaml.
func TestClusterScripts(t *testing.T) {
	bin := buildPrograms(t)
	scripts, err := filepath.Glob(filepath.Join("testdata", "cluster", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			env := clusterEnv(t, c)
			if base := filepath.Base(script); slices.Contains([]string{"editors.txtar", "keptpool.txtar", "pods.txtar", "remote.txtar"}, base) { // others have no right to claims
				env["PODAGENT_STORAGE_CLASS"] = c.Storage(t, 3)
			}
			env["PATH"] = bin + string(os.PathListSeparator) + os.Getenv("PATH")
			env["PODAGENT_BIN"] = filepath.Join(bin, "podagent")
			env["EDITORS"] = editorScripts(t)
			runClusterScript(t, script, env)
		})
	}
}

func runClusterScript(t *testing.T, script string, env map[string]string) {
	testscript.Run(t, testscript.Params{
		Files: []string{script},
		Setup: func(e *testscript.Env) error {
			for name, value := range env {
				e.Setenv(name, value)
			}
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, ".config"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "await": await, "keep": keep},
	})
}

// clusterEnv returns the environment of a script: KUBECONFIG has the rights of
// the Role, LEAST those without which no sandbox works, LACKING one less, NOTHING
// none, and ADMIN all.
func clusterEnv(t *testing.T, c *launchertest.Cluster) map[string]string {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{
		"PODAGENT_NAMESPACE": c.Namespace,
		"PODAGENT_IMAGE":     c.Image,
		"KUBECONFIG":         filepath.Join(dir, "orchestrator"),
		"LEAST":              filepath.Join(dir, "least"),
		"LACKING":            filepath.Join(dir, "lacking"),
		"NOTHING":            filepath.Join(dir, "nothing"),
		"ADMIN":              c.Kubeconfig,
	}
	writeKubeconfig(t, env["KUBECONFIG"], c.Orchestrator)
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	pods := rule("pods", "get", "list", "watch", "create", "patch", "delete")
	leases := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "delete"}}
	writeKubeconfig(t, env["LEAST"], c.LimitedAccount(t, "least", pods, rule("pods/portforward", "get", "create"), leases))
	writeKubeconfig(t, env["LACKING"], c.LimitedAccount(t, "lacking", pods, rule("pods/portforward", "get")))
	nobody, err := c.Account(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	writeKubeconfig(t, env["NOTHING"], nobody)
	return env
}

func writeKubeconfig(t *testing.T, path string, config *rest.Config) {
	t.Helper()
	const name = "test"
	file := api.NewConfig()
	file.Clusters[name] = &api.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &api.AuthInfo{Token: config.BearerToken}
	file.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
}

// awaitTries bounds how often await runs its program: each takes tens of
// milliseconds.
const awaitTries = "1000"

// awaitScript has the number of tries, the pattern, and the command line.
const awaitScript = `
tries=$1 pattern=$2
shift 2
for _ in $(seq "$tries"); do
	out=$("$@" 2>&1) && grep -Eq -- "$pattern" <<<"$out" && echo "$out" && exit
done
echo "the last output was: $out" >&2
exit 1`

// await runs a program again and again until it exits with 0 and a line of its
// output matches an extended regular expression:
//
//	await PATTERN PROGRAM [ARG]...
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN PROGRAM [ARG]...")
	}
	ts.Check(ts.Exec("bash", append([]string{"-c", awaitScript, "await", awaitTries}, args...)...))
}
