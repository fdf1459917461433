package e2e

// What the chart makes for a gateway, and what its account may do.

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// renderInto renders the chart with everything on, and reads one of its objects.
func renderInto(t *testing.T, kind, name string, into any, args ...string) {
	t.Helper()
	object := find(t, render(t, releaseNamespace, append([]string{"--values", everything}, args...)...), kind, name)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		t.Fatal(err)
	}
}

func TestChartsGatewayHasTheFlagsOfItsValues(t *testing.T) {
	t.Parallel()
	first := []string{"--in-cluster", "--namespace=podagent", "--identity-secret=podagent-system/podagent-identity", "--listen=0.0.0.0:8080"}
	last := []string{
		"--health-listen=0.0.0.0:8081", "--drain-delay=7s",
		"--keys=/etc/podagent/keys/keys.yaml", "--service-accounts", "--domain=sandboxes.example.com", "--link-key-file=/etc/podagent/links/keys",
		"--ssh-listen=0.0.0.0:2222", "--ssh-host-key=/etc/podagent/ssh/host-key",
		"--audit=-", "--audit-key-file=/etc/podagent/audit/key.pem",
		"--connection=address", "--image=podagent/runtime:dev", "--log-level=warn", "--requests=cpu=10m,memory=32Mi", "--workspace-size=1Gi",
	}
	for values, between := range map[string][]string{
		"gateway.tls.secret=":     {"--allow-remote"},
		"gateway.tls.secret=cert": {"--tls-cert=/etc/podagent/tls/tls.crt", "--tls-key=/etc/podagent/tls/tls.key"},
	} {
		var deployment appsv1.Deployment
		renderInto(t, "Deployment", "podagent-gateway", &deployment, "--set", "gateway.drainSeconds=7,"+values)
		pod := deployment.Spec.Template.Spec
		if diff := cmp.Diff(slices.Concat(first, between, last), pod.Containers[0].Args); diff != "" {
			t.Errorf("%s: flags (-want +got):\n%s", values, diff)
		}
		if grace := *pod.TerminationGracePeriodSeconds; grace != 7+30 {
			t.Errorf("a gateway has %d s to end", grace)
		}
	}
}

// The root of its container is read-only, and clients of SSH change files by temporary ones.
func TestChartsGatewayWithSSHCanMakeTemporaryFiles(t *testing.T) {
	t.Parallel()
	var deployment appsv1.Deployment
	renderInto(t, "Deployment", "podagent-gateway", &deployment)
	pod := deployment.Spec.Template.Spec
	mounts, volumes := pod.Containers[0].VolumeMounts, pod.Volumes
	at := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/tmp" && !m.ReadOnly })
	if at < 0 {
		t.Fatal("there is no volume at /tmp")
	}
	of := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == mounts[at].Name })
	if of < 0 || volumes[of].EmptyDir == nil || volumes[of].EmptyDir.SizeLimit == nil || volumes[of].EmptyDir.SizeLimit.Value() <= 4<<30 {
		t.Errorf("the volume at /tmp is %+v", volumes)
	}
}

func TestChartsIngressIsForTheGatewaysHostsAndThoseOfItsDomain(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string][]string{
		"":                       {"gateway.example.com"},
		"sandboxes.example.com":  {"gateway.example.com", "*.sandboxes.example.com"},
		"sandboxes.example:8443": {"gateway.example.com", "*.sandboxes.example"},
	} {
		var ingress networkingv1.Ingress
		renderInto(t, "Ingress", "podagent-gateway", &ingress, "--set", "gateway.domain="+domain)
		var got []string
		for _, rule := range ingress.Spec.Rules {
			got = append(got, rule.Host)
		}
		if !slices.Equal(got, want) {
			t.Errorf("with the domain %q it is for %q", domain, got)
		}
	}
}

func TestChartRefusesWrongValuesOfAGateway(t *testing.T) {
	t.Parallel()
	const gateway = "gateway.enabled=true,gateway.image=a,"
	for _, test := range []struct{ values, says string }{
		{"gateway.enabled=true", "/gateway/image"},
		{gateway + "gateway.replicas=-1", "/gateway/replicas"},
		{gateway + "gateway.port=80", "/gateway/port"},
		{gateway + "gateway.healthPort=8080", "must differ"},
		{gateway + "gateway.ssh.enabled=true,gateway.ssh.port=22", "/gateway/ssh/port"},
		{gateway + "gateway.ssh.enabled=true,gateway.ssh.port=8080", "must differ"},
		{gateway + "gateway.settings.ssh-listen=a", "invalid propertyName 'ssh-listen'"},
		{gateway + "gateway.drainSeconds=-1", "/gateway/drainSeconds"},
		{gateway + "gateway.domain=a..b", "/gateway/domain"},
		{gateway + "gateway.domain=a.example", "needs gateway.linkKeys.secret"},
		{gateway + "gateway.settings.e2b=true", "needs gateway.linkKeys.secret"},
		{gateway + "gateway.settings.console=true", "needs gateway.linkKeys.secret"},
		{gateway + "gateway.service.type=ExternalName", "/gateway/service/type"},
		{gateway + "gateway.ingress.create=true", "needs gateway.ingress.hosts"},
		{gateway + "gateway.replicas=1,gateway.domain=a.example,gateway.ingress.create=true,gateway.ingress.hosts={api.a.example}", "at or below gateway.domain"},
		{gateway + "gateway.replicas=1,gateway.domain=a.example:8443,gateway.ingress.create=true,gateway.ingress.hosts={a.example}", "at or below gateway.domain"},
		{gateway + "gateway.podDisruptionBudget.maxUnavailable=0", "/gateway/podDisruptionBudget/maxUnavailable"},
		{gateway + "gateway.networkPolicy.egress.apiServer.cidrs={anywhere}", "/gateway/networkPolicy/egress/apiServer/cidrs/0"},
		{gateway + "gateway.audit.to=claim", "needs gateway.audit.claim"},
		{gateway + "gateway.audit.to=nowhere", "/gateway/audit/to"},
		{gateway + "gateway.settings.keys=a", "invalid propertyName 'keys'"},
		{gateway + "gateway.settings.backend=local", "invalid propertyName 'backend'"},
		{gateway + "gateway.settings.connection=exec", "needs rbac.exec"},
		{gateway + "gateway.settings.runtime-class=gvisor", "needs rbac.exec"},
		{gateway + "gateway.settings.connection=address", "needs networkPolicy.address"},
		{gateway + "gateway.settings.keep-workspace=true", "needs rbac.claims"},
		{gateway + `gateway.podLabels.app\.kubernetes\.io/managed-by=podagent`, "managed-by"},
	} {
		_, err := helm(t, "template", "podagent", chart, "--namespace", "system", "--set", test.values)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.values, err)
		}
	}
}

func TestChartsGatewayMayExecOnlyWhereItConnectsSo(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{
		"gateway.settings.connection=exec":         true,
		"gateway.settings.connection=address":      true, // it learns the keys under gVisor and Kata so
		"gateway.settings.connection=port-forward": false,
		"gateway.enabled=false":                    false,
	} {
		if got := slices.Contains(boundTo(t, "podagent-exec", values), "podagent-gateway"); got != want {
			t.Errorf("%s: it may exec: %v", values, got)
		}
	}
}

// boundTo returns the accounts to which a RoleBinding gives its Role.
func boundTo(t *testing.T, binding string, values string) (accounts []string) {
	t.Helper()
	object := find(t, render(t, releaseNamespace, "--values", everything, "--set", values), "RoleBinding", binding)
	for _, s := range object.Object["subjects"].([]any) {
		accounts = append(accounts, s.(map[string]any)["name"].(string))
	}
	return accounts
}

// What the gateway's account may do in the sandboxes' namespace and in the release's, and what
// it may not do in either, as [may] takes them.
var (
	gatewayMay = []string{
		"get pods", "list pods", "watch pods", "create pods", "patch pods", "delete pods",
		"get pods/portforward", "create pods/portforward", "list events",
		"get coordination.k8s.io:leases", "list coordination.k8s.io:leases", "create coordination.k8s.io:leases",
		"update coordination.k8s.io:leases", "delete coordination.k8s.io:leases",
		"get persistentvolumeclaims", "list persistentvolumeclaims", "create persistentvolumeclaims",
		"patch persistentvolumeclaims", "delete persistentvolumeclaims",
	}
	gatewayMayInItsOwn = []string{"get secrets " + launcher.DefaultIdentitySecret, "create secrets"}
	gatewayMayNot      = []string{
		"get secrets podagent-gateway", "list secrets", "update secrets " + launcher.DefaultIdentitySecret, "delete secrets " + launcher.DefaultIdentitySecret,
		"create pods/exec", "get pods/exec", "create pods/attach", "create pods/proxy", "get pods/log", "update pods",
		"patch pods/ephemeralcontainers", "create serviceaccounts/token", "deletecollection pods",
		"create apps:deployments", "patch apps:deployments", "create batch:jobs", "get configmaps",
	}
)

func TestChartsGatewayMayDoWhatItNeedsAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, accounts := range []bool{false, true} {
		r := newRelease(t)
		values := "gateway.enabled=true,gateway.replicas=0,gateway.image=a,rbac.claims=true,rbac.exec=true,gateway.settings.connection=port-forward"
		if accounts {
			values += ",gateway.serviceAccounts=true"
		}
		r.helm(t, "install", chart, "--set", values)
		defer r.helm(t, "uninstall") // some of it is in no namespace
		inOwn, inSandboxes := *r.cluster, *r.cluster
		inOwn.Namespace, inSandboxes.Namespace = r.namespace, r.sandboxes
		account, err := inOwn.Account(t.Context(), "podagent-gateway")
		if err != nil {
			t.Fatal(err)
		}
		inOwn.Orchestrator, inSandboxes.Orchestrator = account, account
		checkMay(t, &inSandboxes, gatewayMay, true)
		checkMay(t, &inOwn, gatewayMayInItsOwn, true)
		checkMay(t, &inSandboxes, slices.Concat(gatewayMayNot, gatewayMayInItsOwn), false)
		checkMay(t, &inOwn, slices.Concat(gatewayMayNot, gatewayMay), false)
		checkMay(t, &inOwn, []string{"create authentication.k8s.io:tokenreviews"}, accounts)
	}
}

// checkMay checks rights. The API server may take a moment to know those that there are.
func checkMay(t *testing.T, c *launchertest.Cluster, all []string, want bool) {
	t.Helper()
	for _, what := range all {
		if want {
			harness.Await(t, "the right to "+what, func() bool { return may(t, c, what) })
		} else if may(t, c, what) {
			t.Errorf("in %s the account may %s", c.Namespace, what)
		}
	}
}
