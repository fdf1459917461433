package e2e

// Helm, and what it renders from deploy/chart.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

const chart = "../../deploy/chart"

// helmBuild bounds the first build of Helm, which takes some minutes on an idle
// machine.
const helmBuild = 20 * time.Minute

// helmProgram builds the Helm that deploy/helm.mod pins, unless Go's cache has it.
var helmProgram = sync.OnceValues(func() (string, error) {
	mod, err := filepath.Abs("../../deploy/helm.mod")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), helmBuild)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile="+mod, "-n", "helm")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0") // one build for all ways to run the tests
	var stderr strings.Builder
	cmd.Stderr = &stderr
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building helm: %w\n%s", err, &stderr)
	}
	return strings.TrimSpace(string(path)), nil
})

// helm runs Helm and returns its output. The error has its other messages.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := helmProgram()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(cmd.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out), err
}

// A release is a release of the chart in a namespace of a cluster, with another one for
// its sandboxes.
type release struct {
	cluster              *launchertest.Cluster
	namespace, sandboxes string
}

// helm runs a verb on the release and waits until everything is ready, unless the
// arguments say otherwise. If that fails, so does the test.
func (r *release) helm(t *testing.T, verb string, args ...string) {
	t.Helper()
	all := []string{verb, "podagent", "--kubeconfig", r.cluster.Kubeconfig, "--namespace", r.namespace, "--wait", "--timeout", harness.Hung.String()}
	if verb != "uninstall" {
		all = append(all, "--set", "namespace.name="+r.sandboxes)
	}
	if _, err := helm(t, append(all, args...)...); err != nil {
		t.Fatal(err)
	}
}

// render returns the objects that the chart renders for this namespace.
func render(t *testing.T, namespace string, args ...string) []unstructured.Unstructured {
	t.Helper()
	out, err := helm(t, append([]string{"template", "podagent", chart, "--namespace", namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, []byte(out))
}

func objects(t *testing.T, data []byte) (list []unstructured.Unstructured) {
	t.Helper()
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var object unstructured.Unstructured
		err := d.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			list = append(list, object)
		}
	}
}

// byName returns objects by kind and name, without the labels and annotations that
// Helm and its users add.
func byName(list []unstructured.Unstructured) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, object := range list {
		labels := object.GetLabels()
		maps.DeleteFunc(labels, func(name, _ string) bool {
			return strings.HasPrefix(name, "app.kubernetes.io/") || strings.HasPrefix(name, "helm.sh/")
		})
		object.SetLabels(nil)
		if len(labels) > 0 {
			object.SetLabels(labels)
		}
		object.SetAnnotations(nil)
		all[object.GetKind()+" "+object.GetName()] = object.Object
	}
	return all
}

// find returns the object with this kind and name.
func find(t *testing.T, list []unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(list, func(o unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return &list[i]
}
