package e2e

// What the chart renders from its values, without a cluster.

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// everything is a file of values that turn on all of the chart.
const everything = "testdata/chart/everything.yaml"

// chartOptions are the optional manifests of deploy/, with the values that make the
// chart render the same.
var chartOptions = map[string]string{
	"claims-rbac.yaml":             "rbac.claims=true",
	"exec-rbac.yaml":               "rbac.exec=true",
	"identity-rbac.yaml":           "rbac.identity.read=true",
	"session-rbac.yaml":            "rbac.sessions=true",
	"networkpolicy-address.yaml":   "networkPolicy.address=true",
	"networkpolicy-no-egress.yaml": "networkPolicy.noEgress=true",
	"quota.yaml":                   "quota.create=true,limitRange.create=true",
}

// chartDefaults are the manifests that "kubectl apply -k" applies, except for the
// namespace.
var chartDefaults = []string{"rbac.yaml", "networkpolicy.yaml"}

func TestChartPassesHelmLint(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--values", everything}} {
		if out, err := helm(t, append([]string{"lint", "--strict", chart}, args...)...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestChartRendersThePlainManifests(t *testing.T) {
	t.Parallel()
	defaults := manifests(t, chartDefaults...)
	if diff := cmp.Diff(byName(defaults), byName(render(t, "podagent"))); diff != "" {
		t.Errorf("by default (-deploy/ +chart):\n%s", diff)
	}
	for file, values := range chartOptions {
		want := byName(append(manifests(t, chartDefaults...), manifests(t, file)...))
		got := byName(render(t, "podagent", "--set", values))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-deploy/%s +chart):\n%s", values, file, diff)
		}
	}
}

func TestChartHasEachPlainManifest(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../deploy/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known := append([]string{"kustomization.yaml", "namespace.yaml"}, chartDefaults...)
	for _, f := range files {
		if name := filepath.Base(f); chartOptions[name] == "" && !slices.Contains(known, name) {
			t.Errorf("no test knows deploy/%s as part of the chart", name)
		}
	}
}

// manifests returns the objects in files of deploy/.
func manifests(t *testing.T, files ...string) (list []unstructured.Unstructured) {
	t.Helper()
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join("../../deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, objects(t, data)...)
	}
	return list
}

func TestChartMakesANamespaceForSandboxes(t *testing.T) {
	t.Parallel()
	list := render(t, "system", "--values", everything, "--set", "namespace.name=podagent,namespace.create=true")
	got := byName(slices.DeleteFunc(slices.Clone(list), func(o unstructured.Unstructured) bool { return o.GetKind() != "Namespace" }))
	if diff := cmp.Diff(byName(manifests(t, "namespace.yaml")), got); diff != "" {
		t.Errorf("the namespace (-deploy/ +chart):\n%s", diff)
	}
	for _, o := range list {
		want := "podagent" // objects about sandboxes
		switch {
		case o.GetKind() == "Namespace":
			want = ""
		case o.GetKind() == "ServiceAccount", o.GetName() == "podagent-mcp":
			want = "system"
		}
		if o.GetNamespace() != want {
			t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			if s.(map[string]any)["namespace"] != "system" {
				t.Errorf("%s binds %v", o.GetName(), s)
			}
		}
	}
	policy := find(t, list, "NetworkPolicy", "podagent-address")
	if rules, _, _ := unstructured.NestedSlice(policy.Object, "spec", "ingress"); !strings.Contains(fmt.Sprint(rules), "kubernetes.io/metadata.name:system") {
		t.Errorf("orchestrators in the release's namespace may not connect: %v", rules)
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	t.Parallel()
	const mcp = "mcp.enabled=true,mcp.image=a,rbac.identity.read=true,"
	for _, test := range []struct{ values, says string }{
		{"rbac.exce=true", "'exce' not allowed"},
		{"sandbox.image=a", "'sandbox' not allowed"},
		{"rbac.exec=maybe", "/rbac/exec"},
		{"namespace.podSecurity=privileged", "/namespace/podSecurity"},
		{"namespace.name=Not_a_name", "/namespace/name"},
		{"namespace.create=true", "needs a namespace.name"},
		{"namespace.create=true,namespace.name=podagent", "needs a namespace.name"},
		{"claim.size=much", "/claim/size"},
		{"quota.hard.pods=many", "/quota/hard/pods"},
		{"mcp.enabled=true,rbac.identity.read=true", "/mcp/image"},
		{"mcp.enabled=true,mcp.image=a", "needs rbac.identity.read"},
		{mcp + "mcp.port=80", "/mcp/port"},
		{mcp + "mcp.settings.http=:80", "invalid propertyName 'http'"},
		{mcp + "mcp.settings.Image=a", "invalid propertyName 'Image'"},
		{mcp + "mcp.settings.git.url=a", "/mcp/settings/git"},
		{mcp + "mcp.settings.connection=exec", "needs rbac.exec"},
		{mcp + "mcp.settings.runtime-class=kata-qemu", "needs rbac.exec"},
		{mcp + "mcp.settings.runtime-class=kata,mcp.settings.connection=address,networkPolicy.address=true", "needs rbac.exec"},
		{mcp + "mcp.settings.connection=address", "needs networkPolicy.address"},
		{mcp + "mcp.settings.keep-workspace=true", "needs rbac.claims"},
		{mcp + "mcp.service.create=true", "needs mcp.allowRemote"},
		{mcp + `mcp.podLabels.app\.kubernetes\.io/managed-by=podagent`, "managed-by"},
	} {
		_, err := helm(t, "template", "podagent", chart, "--namespace", "podagent", "--set", test.values)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.values, err)
		}
	}
}

func TestChartsMCPServerHasTheFlagsOfItsSettings(t *testing.T) {
	t.Parallel()
	var deployment appsv1.Deployment
	object := find(t, render(t, "podagent", "--values", everything), "Deployment", "podagent-mcp")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &deployment, true); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--in-cluster", "--namespace=podagent", "--identity-secret=podagent-identity", "--token-file=/var/run/secrets/podagent/token",
		"--http=0.0.0.0:8931", "--allow-remote",
		"--connection=address", "--image=podagent/runtime:dev", "--max-sessions=1000000", "--requests=cpu=10m,memory=32Mi",
		"--secret=API_TOKEN=env:API_TOKEN", "--secret=OTHER=file:/etc/other/token", "--workspace-size=1Gi",
	}
	pod := deployment.Spec.Template.Spec
	if diff := cmp.Diff(want, pod.Containers[0].Args); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	if grace := *pod.TerminationGracePeriodSeconds; grace < 60 {
		t.Errorf("the server has %d s to delete its sandboxes", grace)
	}
}

func TestChartsNotesSayWhatIsLeftToDo(t *testing.T) {
	t.Parallel()
	out, err := helm(t, "install", "podagent", chart, "--dry-run=client", "--namespace", "here", "--values", everything)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kubectl label namespace here --overwrite pod-security.kubernetes.io/enforce=restricted", "orchestrator doctor -n here",
		"kubectl create secret generic podagent-mcp -n here", "port 8931 of podagent-mcp.here.svc", "kubectl port-forward -n here deployment/podagent-mcp 8931",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}
