// Package agentsandbox tests sandboxes that agent-sandbox's controller makes, with that
// controller.
package agentsandbox

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// benchModule is the module that requires agent-sandbox.
var benchModule = filepath.Join("..", "..", "bench")

// agentSandbox is the module of agent-sandbox.
const agentSandbox = "sigs.k8s.io/agent-sandbox"

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// controller is the running controller. All tests share it.
var controller struct {
	sync.Mutex
	process *exec.Cmd
	dir     string // of the program and its log
}

func TestMain(m *testing.M) {
	code := m.Run()
	if p := controller.process; p != nil {
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait() // it ends by the signal
		_ = os.RemoveAll(controller.dir)
	}
	os.Exit(code)
}

// withController returns a cluster in which agent-sandbox is installed and its controller runs.
func withController(t *testing.T) *launchertest.Cluster {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	controller.Lock()
	defer controller.Unlock()
	if controller.process == nil {
		installResources(t, c)
		startController(t, c)
	}
	if err := c.Apply(t.Context(), filepath.Join("..", "..", "..", "deploy", "agent-sandbox-rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	return c
}

// launcherOf returns a launcher of the cluster.
func launcherOf(c *launchertest.Cluster) *agentsandbox.Launcher {
	return &agentsandbox.Launcher{Cluster: c.Launcher()}
}

// inBench runs a command in the module of the benchmarks, and returns its output.
func inBench(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = benchModule
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// startController builds and starts the controller, outside of the cluster.
func startController(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	controller.dir = dir
	program := filepath.Join(dir, "controller")
	inBench(t, "build", "-trimpath", "-o", program, agentSandbox+"/cmd/agent-sandbox-controller")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, "-kubeconfig", c.Kubeconfig, "-extensions", "-leader-elect=false",
		"-metrics-bind-address=0", "-health-probe-bind-address=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	controller.process = cmd
}

// installResources installs the CRDs, unless they are there.
func installResources(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	dir := filepath.Join(inBench(t, "list", "-m", "-f", "{{.Dir}}", agentSandbox), "k8s", "crds")
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs in %s: %v", dir, err)
	}
	api := crdsOf(t, c)
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

func crdsOf(t *testing.T, c *launchertest.Cluster) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(crds)
}

// objectsIn returns the objects of a YAML file.
func objectsIn(t *testing.T, path string) (list []*unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return objectsOf(t, data)
}

func objectsOf(t *testing.T, data []byte) (list []*unstructured.Unstructured) {
	t.Helper()
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		err := d.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return list
		case err != nil:
			t.Fatal(err)
		case object.Object != nil:
			list = append(list, object)
		}
	}
}

// awaitEstablished waits until the API server serves the resource of a CRD.
func awaitEstablished(t *testing.T, api dynamic.ResourceInterface, name string) {
	t.Helper()
	harness.Await(t, name+" in the API", func() bool {
		now, err := api.Get(t.Context(), name, metav1.GetOptions{})
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

// apply creates the objects of a YAML text in the test's namespace.
func apply(t *testing.T, c *launchertest.Cluster, text []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), path); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
