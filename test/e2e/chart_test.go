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
	"identity-rotation-rbac.yaml":  "rbac.identity.rotation=true",
	"session-rbac.yaml":            "rbac.sessions=true",
	"networkpolicy-address.yaml":   "networkPolicy.address=true",
	"networkpolicy-no-egress.yaml": "networkPolicy.noEgress=true",
	"quota.yaml":                   "quota.create=true,limitRange.create=true",
	"admission-policy.yaml":        "admissionPolicy.create=true",
	"pools-rbac.yaml":              "rbac.pools=true",
	"agent-sandbox-rbac.yaml":      "rbac.agentSandbox=true",
	"reaper.yaml":                  "reaper.create=true,reaper.image=registry.example/orchestrator:1.2",
}

// chartDefaults are the manifests that "kubectl apply -k" applies. The release's
// namespace is Helm's.
var chartDefaults = []string{"namespace.yaml", "rbac.yaml", "networkpolicy.yaml", "networkpolicy-egress.yaml"}

// releaseNamespace is the namespace of deploy/ that is the release's.
const releaseNamespace = "podagent-system"

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
	if diff := cmp.Diff(byName(defaults), byName(render(t, releaseNamespace))); diff != "" {
		t.Errorf("by default (-deploy/ +chart):\n%s", diff)
	}
	for file, values := range chartOptions {
		want := byName(manifests(t, append(slices.Clone(chartDefaults), file)...))
		got := byName(render(t, releaseNamespace, "--set", values))
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
	known := append([]string{"kustomization.yaml"}, chartDefaults...)
	for _, f := range files {
		if name := filepath.Base(f); chartOptions[name] == "" && !slices.Contains(known, name) {
			t.Errorf("no test knows deploy/%s as part of the chart", name)
		}
	}
}

// manifests returns the objects in files of deploy/, without the release's namespace.
func manifests(t *testing.T, files ...string) (list []unstructured.Unstructured) {
	t.Helper()
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join("../../deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, objects(t, data)...)
	}
	return slices.DeleteFunc(list, func(o unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" && o.GetName() == releaseNamespace
	})
}

func TestChartKeepsSandboxesApartFromOrchestratorsAndSecrets(t *testing.T) {
	t.Parallel()
	own := []string{"podagent-mcp", "podagent-identity", "podagent-sessions", "podagent-identity-rotation", "podagent-reaper-identity", "podagent-gateway", "podagent-gateway-ssh", "podagent-gateway-identity"}
	list := render(t, "system", "--values", everything)
	for _, o := range list {
		want := "podagent" // objects about sandboxes
		switch {
		case o.GetKind() == "Namespace", strings.HasPrefix(o.GetKind(), "ClusterRole"), strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy"):
			want = ""
		case o.GetKind() == "ServiceAccount", o.GetKind() == "CronJob", slices.Contains(own, o.GetName()):
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

// So does --reuse-values with a release of a version that did not have them.
func TestChartRendersWithoutTheValuesThatEarlierVersionsLack(t *testing.T) {
	t.Parallel()
	lacking := render(t, releaseNamespace, "--set", "reaper=null,admissionPolicy=null,gateway=null")
	if diff := cmp.Diff(byName(render(t, releaseNamespace)), byName(lacking)); diff != "" {
		t.Errorf("(-defaults +without):\n%s", diff)
	}
}

func TestChartsReaperConnectsAsTheServer(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{"reaper.staleAfter=15m": "--connection=address", "reaper.connection=exec": "--connection=exec"} {
		job := find(t, render(t, "system", "--values", everything, "--set", values), "CronJob", "podagent-reaper")
		if got := fmt.Sprint(job.Object["spec"]); !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

func TestChartsReaperMayExecOnlyWhereItConnectsSo(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{
		"reaper.connection=exec":         true,
		"reaper.connection=address":      true, // it learns the keys under gVisor and Kata so
		"reaper.connection=port-forward": false,
		"reaper.create=false":            false,
	} {
		binding := find(t, render(t, "system", "--values", everything, "--set", values), "RoleBinding", "podagent-exec")
		if got := strings.Contains(fmt.Sprint(binding.Object["subjects"]), "name:podagent-reaper"); got != want {
			t.Errorf("%s: it may exec: %v", values, got)
		}
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	t.Parallel()
	const reaper = "reaper.create=true,reaper.image=a,"
	const mcp = "mcp.enabled=true,mcp.image=a,rbac.identity.read=true,"
	for _, test := range []struct{ values, says string }{
		{"namespace.name=system", "a namespace of their own"},
		{"namespace.name=", "a namespace of their own"},
		{"admissionPolicy.secrets[0]=Not_a_name", "/admissionPolicy/secrets/0"},
		{"reaper.create=true", "needs reaper.image"},
		{"reaper.staleAfter=soon", "/reaper/staleAfter"},
		{"reaper.connection=phone", "/reaper/connection"},
		{reaper + "reaper.connection=exec", "needs rbac.exec"},
		{reaper + "mcp.settings.connection=exec", "needs rbac.exec"},
		{reaper + "reaper.connection=address", "needs networkPolicy.address"},
		{reaper + "reaper.schedule=null", "--reset-then-reuse-values"},
		{"admissionPolicy.create=true,namespace.create=false,namespace.name=", "a namespace of their own"},
		{"rbac.exce=true", "'exce' not allowed"},
		{"sandbox.image=a", "'sandbox' not allowed"},
		{"rbac.exec=maybe", "/rbac/exec"},
		{"namespace.podSecurity=privileged", "/namespace/podSecurity"},
		{"namespace.name=Not_a_name", "/namespace/name"},
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
		_, err := helm(t, "template", "podagent", chart, "--namespace", "system", "--set", test.values)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.values, err)
		}
	}
}

func TestChartsMCPServerHasTheFlagsOfItsSettings(t *testing.T) {
	t.Parallel()
	var deployment appsv1.Deployment
	object := find(t, render(t, releaseNamespace, "--values", everything), "Deployment", "podagent-mcp")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &deployment, true); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--in-cluster", "--namespace=podagent", "--identity-secret=podagent-system/podagent-identity", "--token-file=/var/run/secrets/podagent/token",
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
	out, err := helm(t, "install", "podagent", chart, "--dry-run=client", "--namespace", "here", "--values", everything, "--set", "namespace.create=false")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kubectl label namespace podagent --overwrite pod-security.kubernetes.io/enforce=restricted", "orchestrator doctor -n podagent",
		"kubectl create secret generic podagent-mcp -n here", "port 8931 of podagent-mcp.here.svc", "kubectl port-forward -n here deployment/podagent-mcp 8931",
		"kubectl create secret generic gateway-keys -n here --from-file=token=keys.yaml", "kubectl create secret generic gateway-links -n here",
		"kubectl create secret generic gateway-host-key -n here --from-file=token=host-key", "SSH is at port 22 of podagent-gateway-ssh.here.svc",
		"kubectl create secret generic gateway-audit -n here --from-file=token=audit.pem",
		"port 80 of podagent-gateway.here.svc", "kubectl port-forward -n here service/podagent-gateway 8080:80",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}
