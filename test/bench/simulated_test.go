package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// simulated is a node whose pods do not run, so that one machine has room for thousands. KWOK
// says what a kubelet would say of them, and internal/agents answers for their agents.
type simulated struct {
	name   string
	agents *program
}

// simulate adds a simulated node to the cluster. It is for pods that name it. In the
// end the namespace's pods are deleted, too, because nobody else would confirm that they
// have ended.
func simulate(b *testing.B, c *launchertest.Cluster) *simulated {
	b.Helper()
	n := &simulated{name: c.Namespace}
	kwok, stages := kwok(b)
	keys := filepath.Join(filepath.Dir(c.Kubeconfig), "pki")
	if _, err := os.Stat(keys); err != nil {
		b.Fatalf("the API server believes no other node than those of \"make cluster\": %v", err)
	}
	n.agents = startProgram(b, build(b, "agents", "./internal/agents"), "-kubeconfig", c.Kubeconfig,
		"-certificate", filepath.Join(keys, "kubelet.crt"), "-key", filepath.Join(keys, "kubelet.key"))
	port := n.agents.line(b)
	startProgram(b, kwok, "--v", "ERROR", "--config", stages, "--kubeconfig", c.Kubeconfig, "--manage-single-node", n.name, "--node-lease-duration-seconds", "40",
		"--node-ip", "127.0.0.1", "--node-port", port,
		"--server-address", "127.0.0.1:0", // by default it would serve on the node's port
	)
	n.create(b, c)
	return n
}

// create creates the node, and returns when it is Ready.
func (n *simulated) create(b *testing.B, c *launchertest.Cluster) {
	b.Helper()
	nodes, pods := c.API(b).CoreV1().Nodes(), c.API(b).CoreV1().Pods(c.Namespace)
	_, err := nodes.Create(b.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: "podagent.test/simulated", Effect: corev1.TaintEffectNoSchedule,
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		at := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := pods.DeleteCollection(context.Background(), at, metav1.ListOptions{}); err != nil {
			b.Error(err)
		}
		if err := nodes.Delete(context.Background(), n.name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	err = await(b.Context(), "a simulated node", func() error {
		node, err := nodes.Get(b.Context(), n.name, metav1.GetOptions{})
		if err == nil && !isReady(node) {
			err = fmt.Errorf("its conditions are %v", node.Status.Conditions)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// patch is the patch of a pod that puts it on the node, past the scheduler.
func (n *simulated) patch() []byte { return []byte("spec: {nodeName: " + n.name + "}") }

// kwokModule is KWOK, in the version of kwok.mod: its dependencies should not be ours.
const kwokModule = "sigs.k8s.io/kwok"

// kwok builds KWOK, and returns its path and that of a file with its stages in which pods run
// as soon as they are there.
func kwok(b *testing.B) (program, stages string) {
	b.Helper()
	dir := b.TempDir()
	program, stages = filepath.Join(dir, "kwok"), filepath.Join(dir, "stages.yaml")
	goTool(b, "build", "-modfile=kwok.mod", "-trimpath", "-ldflags=-s -w", "-o", program, kwokModule+"/cmd/kwok")
	source := goTool(b, "list", "-modfile=kwok.mod", "-m", "-f", "{{.Dir}}", kwokModule)
	var all [][]byte
	for _, pattern := range []string{"node/fast/node-*.yaml", "pod/fast/pod-*.yaml"} {
		files, err := filepath.Glob(filepath.Join(source, "kustomize", "stage", pattern))
		if err != nil || len(files) == 0 {
			b.Fatalf("KWOK has no stages %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, text)
		}
	}
	if err := os.WriteFile(stages, bytes.Join(all, []byte("\n---\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	return program, stages
}

// goTool returns what the go command prints.
func goTool(b *testing.B, args ...string) string {
	b.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v: %v\n%s", cmd, err, &failure)
	}
	return strings.TrimSpace(string(out))
}

// connections returns how many connections to agents there are.
func (n *simulated) connections(b *testing.B) float64 {
	b.Helper()
	return n.agents.askNumber(b, "connections")
}

// awaitIdle waits until there are no connections, and reports whether that is so.
func (n *simulated) awaitIdle(b *testing.B) bool {
	b.Helper()
	for begun := time.Now(); time.Since(begun) < idlePatience; time.Sleep(time.Second) {
		if n.connections(b) == 0 {
			return true
		}
	}
	return false
}
