package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// chartValues are values that differ from those that turn on all of the chart. A
// value that is invalid alone is followed by a space and the value that it needs.
var chartValues = []string{
	"namespace.name=other",
	"namespace.create=false",
	"namespace.podSecurity=baseline",
	"serviceAccount.create=false",
	"serviceAccount.name=other",
	"serviceAccount.annotations.a=b",
	"rbac.create=false",
	"rbac.exec=false mcp.settings.connection=port-forward",
	"rbac.claims=false",
	"rbac.pools=false",
	"rbac.agentSandbox=false",
	"rbac.sessions=false",
	"rbac.identity.read=false mcp.enabled=false",
	"rbac.identity.create=false",
	"rbac.identity.rotation=false",
	"rbac.identity.secret=other",
	"networkPolicy.noIngress=false",
	"networkPolicy.egress=false",
	"networkPolicy.noEgress=false",
	"networkPolicy.address=false mcp.settings.connection=port-forward,gateway.settings.connection=port-forward",
	"admissionPolicy.create=false",
	"admissionPolicy.secrets[0]=other",
	"reaper.create=false",
	"reaper.image=other",
	"reaper.imagePullPolicy=Always",
	"reaper.imagePullSecrets[0]=other",
	"reaper.schedule=@hourly",
	"reaper.staleAfter=1h30m",
	"reaper.connection=exec",
	"reaper.resources.requests.cpu=1",
	"reaper.resources.requests.memory=1Gi",
	"reaper.resources.limits.memory=1Gi",
	"quota.create=false",
	"quota.hard.pods=null",
	`quota.hard.requests\.memory=1Gi`,
	`quota.hard.limits\.memory=1Gi`,
	"limitRange.create=false",
	"limitRange.limits[0].type=Pod",
	"claim.create=false",
	"claim.name=other",
	"claim.size=2Gi",
	"claim.storageClass=other",
	"claim.accessModes[0]=ReadWriteMany",
	"mcp.enabled=false",
	"mcp.image=other",
	"mcp.imagePullPolicy=Always",
	"mcp.imagePullSecrets[0]=other",
	"mcp.token.secret=other",
	"mcp.token.key=other",
	"mcp.port=8932",
	"mcp.allowRemote=false mcp.service.create=false",
	"mcp.allowFrom=null",
	"mcp.service.create=false",
	"mcp.service.port=80",
	"mcp.service.targetPort=8443",
	"mcp.settings.max-idle=1m",
	"mcp.env=null",
	"mcp.resources.requests.cpu=1",
	"mcp.resources.requests.memory=1Gi",
	"mcp.resources.limits.memory=1Gi",
	"mcp.podLabels.a=b",
	"mcp.podAnnotations.a=b",
	"mcp.nodeSelector.a=b",
	"mcp.tolerations=null",
	"mcp.priorityClassName=other",
	"mcp.extraContainers[0].name=other",
	"mcp.extraVolumes[0].secret.optional=true",
	"mcp.extraVolumeMounts[0].readOnly=true",
	"gateway.enabled=false",
	"gateway.replicas=3",
	"gateway.image=other",
	"gateway.imagePullPolicy=Always",
	"gateway.imagePullSecrets[0]=other",
	"gateway.keys.secret=other",
	"gateway.keys.key=other",
	"gateway.credentials.secret=other",
	"gateway.serviceAccounts=false",
	"gateway.domain=other.example.com",
	"gateway.linkKeys.secret=other",
	"gateway.linkKeys.key=other",
	"gateway.audit.to=emptyDir",
	"gateway.audit.claim=other gateway.audit.to=claim",
	"gateway.audit.key.secret=other",
	"gateway.audit.key.key=other",
	"gateway.tls.secret=other",
	"gateway.port=9090",
	"gateway.healthPort=9091",
	"gateway.ssh.enabled=false",
	"gateway.ssh.port=2022",
	"gateway.ssh.hostKey.secret=other",
	"gateway.ssh.hostKey.key=other",
	"gateway.ssh.allowFrom=null",
	"gateway.ssh.service.type=LoadBalancer",
	"gateway.ssh.service.port=2222",
	"gateway.ssh.service.nodePort=30022 gateway.ssh.service.type=NodePort",
	"gateway.ssh.service.externalTrafficPolicy=Cluster gateway.ssh.service.type=LoadBalancer",
	"gateway.ssh.service.annotations.a=b",
	"gateway.drainSeconds=10",
	"gateway.service.type=LoadBalancer",
	"gateway.service.port=8080",
	"gateway.service.nodePort=30080 gateway.service.type=NodePort",
	"gateway.service.annotations.a=b",
	"gateway.ingress.create=false",
	"gateway.ingress.className=other",
	"gateway.ingress.hosts[0]=other.example.org",
	"gateway.ingress.tls[0].secretName=other",
	"gateway.ingress.annotations.a=b",
	"gateway.podMonitor.create=false",
	"gateway.podMonitor.labels.a=b",
	"gateway.podDisruptionBudget.create=false",
	"gateway.podDisruptionBudget.maxUnavailable=50%",
	"gateway.networkPolicy.create=false",
	"gateway.networkPolicy.allowFrom=null",
	"gateway.networkPolicy.allowHealthFrom=null",
	"gateway.networkPolicy.egress.create=false",
	"gateway.networkPolicy.egress.apiServer.ports[0]=6443",
	"gateway.networkPolicy.egress.apiServer.cidrs[0]=198.51.100.0/24",
	"gateway.networkPolicy.egress.more=null",
	"gateway.spreadOver=null",
	"gateway.settings.max-idle=1m",
	"gateway.settings.log-level=debug",
	"gateway.env=null",
	"gateway.resources.requests.cpu=1",
	"gateway.resources.requests.memory=1Gi",
	"gateway.resources.limits.memory=2Gi",
	"gateway.podLabels.a=b",
	"gateway.podAnnotations.a=b",
	"gateway.nodeSelector.a=b",
	"gateway.tolerations=null",
	"gateway.priorityClassName=other",
	"gateway.extraContainers[0].name=other",
	"gateway.extraVolumes[0].secret.optional=true",
	"gateway.extraVolumeMounts[0].readOnly=true",
}

func TestEachValueOfTheChartChangesWhatItMakes(t *testing.T) {
	t.Parallel()
	bases := map[string][]unstructured.Unstructured{}
	rendered := func(set ...string) []unstructured.Unstructured {
		args := []string{"--values", everything}
		for _, s := range set {
			if s != "" {
				args = append(args, "--set", s)
			}
		}
		return render(t, "system", args...)
	}
	for _, value := range chartValues {
		change, from, _ := strings.Cut(value, " ")
		if bases[from] == nil {
			bases[from] = rendered(from)
		}
		if cmp.Equal(bases[from], rendered(from, change)) {
			t.Errorf("%s changes nothing", change)
		}
	}
}

func TestNoValueOfTheChartIsUntested(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	for _, leaf := range leaves("", values) {
		changes := func(v string) bool {
			return strings.HasPrefix(v, leaf) && strings.ContainsAny(v[len(leaf):][:1], "=[.")
		}
		if !slices.ContainsFunc(chartValues, changes) {
			t.Errorf("no test changes %s", leaf)
		}
	}
}

// leaves returns the names of the values, except for maps with values in them, in
// the format of --set.
func leaves(prefix string, values map[string]any) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path := prefix + strings.ReplaceAll(name, ".", `\.`)
		if below, ok := values[name].(map[string]any); ok && len(below) > 0 {
			names = append(names, leaves(path+".", below)...)
		} else {
			names = append(names, path)
		}
	}
	return names
}
