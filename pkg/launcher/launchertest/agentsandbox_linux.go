package launchertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// agentSandbox is the module of agent-sandbox. That of the benchmarks requires it.
const agentSandbox = "sigs.k8s.io/agent-sandbox"

// establishTimeout bounds the time until the API server serves a new resource.
const establishTimeout = 2 * time.Minute

// InstallAgentSandbox installs the resources of agent-sandbox in the cluster, unless they are
// there.
func (c *Cluster) InstallAgentSandbox(t testing.TB) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(inBenchmarks(t, "list", "-m", "-f", "{{.Dir}}", agentSandbox), "k8s", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("agent-sandbox has no resources: %v", err)
	}
	api := c.resourceDefinitions(t)
	for _, file := range files {
		for _, object := range objectsIn(t, file) {
			_, err := api.Create(t.Context(), object, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			awaitEstablished(t, api, object.GetName())
		}
	}
}

// RemoveAgentSandbox removes these resources with all their objects, if they are there.
func (c *Cluster) RemoveAgentSandbox(t testing.TB) {
	t.Helper()
	api := c.resourceDefinitions(t)
	list, err := api.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range list.Items {
		if !strings.HasSuffix(object.GetName(), ".agents.x-k8s.io") {
			continue
		}
		if err := api.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		awaitDefinition(t, api, object.GetName(), func(_ *unstructured.Unstructured, err error) bool { return apierrors.IsNotFound(err) })
	}
}

// StartAgentSandbox builds the controller of agent-sandbox and runs it outside of the cluster,
// until stop is called.
func (c *Cluster) StartAgentSandbox(t testing.TB) (stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "controller")
	inBenchmarks(t, "build", "-trimpath", "-o", program, agentSandbox+"/cmd/agent-sandbox-controller")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// It ends with its standard input, so also if this process is killed.
	cmd := exec.Command("sh", "-c", `"$0" "$@" & cat; kill $!; wait`, program, "-kubeconfig", c.Kubeconfig, "-extensions", "-leader-elect=false",
		"-metrics-bind-address=0", "-health-probe-bind-address=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = stdin.Close()
		_ = cmd.Wait() // by the signal
		_ = os.RemoveAll(dir)
	}
}

// AgentSandboxClient builds the program that walks agent-sandbox's client for Go through a sandbox, and
// returns its path: see test/bench/internal/agentsandboxclient.
func AgentSandboxClient(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "agentsandboxclient")
	inBenchmarks(t, "build", "-trimpath", "-o", program, "./internal/agentsandboxclient")
	return program
}

// inBenchmarks runs a go command in the module of the benchmarks, and returns its output.
func inBenchmarks(t testing.TB, args ...string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join(root, "test", "bench")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

func (c *Cluster) resourceDefinitions(t testing.TB) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

func objectsIn(t testing.TB, path string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Objects(data)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", path, err))
	}
	return objects
}

// awaitEstablished waits until the API server serves the resource of a definition.
func awaitEstablished(t testing.TB, api dynamic.ResourceInterface, name string) {
	t.Helper()
	awaitDefinition(t, api, name, func(now *unstructured.Unstructured, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				return true
			}
		}
		return false
	})
}

func awaitDefinition(t testing.TB, api dynamic.ResourceInterface, name string, done func(*unstructured.Unstructured, error) bool) {
	t.Helper()
	for deadline := time.Now().Add(establishTimeout); ; time.Sleep(20 * time.Millisecond) {
		now, err := api.Get(t.Context(), name, metav1.GetOptions{})
		if done(now, err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the resource %s has not changed within %v: %v", name, establishTimeout, err)
		}
	}
}
