package e2e

// The network policies of deploy/ and of the chart, which the test cluster enforces.

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The agent's port at a pod's address, and another one.
const (
	agentPort = 7463
	otherPort = 8000
)

// A target is the address of a server, with its protocol.
type target struct {
	protocol string // tcp or udp
	address  netip.AddrPort
}

func (to target) String() string { return to.protocol + " " + to.address.String() }

// atPod returns a port of a sandbox's pod.
func atPod(t *testing.T, c *launchertest.Cluster, id string, port uint16) target {
	t.Helper()
	return target{"tcp", netip.AddrPortFrom(netip.MustParseAddr(runningPodOf(t, c, id).Status.PodIP), port)}
}

// attempts are scripts that connect to a server, or send it a byte that it sends
// back.
var attempts = map[string]string{
	"tcp": `exec 3<>/dev/tcp/%[1]s/%[2]d`,
	"udp": `exec 3<>/dev/udp/%[1]s/%[2]d && printf x >&3 && [ "$(head -c 1 <&3)" = x ]`,
}

// reaches reports whether a server is reached from a sandbox. The test cluster
// answers to what a policy refuses, so a refusal takes no time.
func reaches(t *testing.T, from *launcher.Sandbox, to target) bool {
	t.Helper()
	stderr, status := attempt(t, from, to, 60)
	if status.Code != 0 && !strings.Contains(stderr, "refused") && !strings.Contains(stderr, "No route") {
		t.Errorf("%s is neither reached nor refused: %+v %s", to, status, stderr)
	}
	return status.Code == 0
}

// attempt tries to reach a server from a sandbox for some seconds.
func attempt(t *testing.T, from *launcher.Sandbox, to target, seconds int) (stderr string, status podapi.ExitStatus) {
	t.Helper()
	script := fmt.Sprintf(attempts[to.protocol], to.address.Addr(), to.address.Port())
	_, stderr, status = harness.Run(t, from, fmt.Sprintf("exec timeout %d bash -c '%s'", seconds, script), nil)
	return stderr, status
}

// checkUnanswered checks that a sandbox does not reach a server under the address of a
// service, once a policy is in force. The answer of the test cluster to a refused
// connection is lost where that address is translated.
func checkUnanswered(t *testing.T, from *launcher.Sandbox, to target) {
	t.Helper()
	if stderr, status := attempt(t, from, to, 3); status.Code == 0 {
		t.Errorf("%s reaches %s after all %s", from.ID, to, stderr)
	}
}

// nodeReaches is reaches from the node, on which the tests run.
func nodeReaches(t *testing.T, to target) bool {
	t.Helper()
	conn, err := net.DialTimeout(to.protocol, to.address.String(), harness.Hung)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// checkReached checks that a sandbox reaches all targets.
func checkReached(t *testing.T, from *launcher.Sandbox, all ...target) {
	t.Helper()
	for _, to := range all {
		if !reaches(t, from, to) {
			t.Errorf("%s does not reach %s", from.ID, to)
		}
	}
}

// moreAttempts is how often a server must stay out of reach after it first was.
const moreAttempts = 3

// checkRefused waits until a sandbox does not reach the targets any more, and checks
// that it stays so.
func checkRefused(t *testing.T, from *launcher.Sandbox, all ...target) {
	t.Helper()
	for _, to := range all {
		harness.Await(t, "the refusal of "+to.String(), func() bool { return !reaches(t, from, to) })
	}
	for range moreAttempts {
		for _, to := range all {
			if reaches(t, from, to) {
				t.Errorf("%s reaches %s after all", from.ID, to)
			}
		}
	}
}

// echo is a program that accepts connections, and sends back packets, at the ports
// in its arguments. Every image of Debian can run it.
const echo = `for my $port (@ARGV) {
	my $tcp = IO::Socket::INET->new(LocalPort => $port, Listen => 9, ReuseAddr => 1) or die "tcp $port: $!";
	my $udp = IO::Socket::INET->new(LocalPort => $port, Proto => "udp") or die "udp $port: $!";
	fork or do { while (1) { my $c = $tcp->accept } };
	fork or do { while (1) { $udp->recv(my $data, 512); $udp->send($data) } };
}
print "ready\n"; close STDOUT; sleep`

// echoCommand returns the command for ports.
func echoCommand(ports ...uint16) []string {
	command := []string{"perl", "-MIO::Socket::INET", "-e", "$| = 1; " + echo}
	for _, port := range ports {
		command = append(command, fmt.Sprint(port))
	}
	return command
}

// startEcho runs it in a sandbox, at the other port.
func startEcho(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	command := echoCommand(otherPort)
	cmd := s.Command(t.Context(), command[0], command[1:]...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// apply applies a file of deploy/.
func apply(t *testing.T, c *launchertest.Cluster, file string) {
	t.Helper()
	if err := c.Apply(t.Context(), filepath.Join("../../deploy", file)); err != nil {
		t.Fatal(err)
	}
}

// The node of a pod always reaches it: Kubernetes lets no policy refuse that, and
// the kubelet needs it. A port-forward enters the pod from there.
func TestNoIngressPolicyKeepsOtherPodsAway(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	elsewhere := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	s := harness.Launch(t, c.Launcher(), c.Spec("sandbox"))
	startEcho(t, s)
	second := harness.Launch(t, c.Launcher(), c.Spec("second"))
	stranger := harness.Launch(t, elsewhere.Launcher(), elsewhere.Spec("stranger"))
	ports := []target{atPod(t, c, "sandbox", agentPort), atPod(t, c, "sandbox", otherPort)}
	checkReached(t, second, ports...)
	checkReached(t, stranger, ports...)

	apply(t, c, "networkpolicy.yaml")
	checkRefused(t, second, ports...)
	checkRefused(t, stranger, ports...)
	for _, to := range ports {
		if !nodeReaches(t, to) {
			t.Errorf("the node does not reach %s", to)
		}
	}
	checkReached(t, s, atPod(t, elsewhere, "stranger", agentPort)) // egress is free
	forwarded, err := c.By(t, launcher.ByPortForward).Launcher().Open(t.Context(), "sandbox")
	if err != nil {
		t.Fatal(err)
	}
	defer forwarded.Close()
	harness.Put(t, forwarded, "file", "x")
}

func TestAddressPolicyAdmitsOrchestratorsToTheAgentsPort(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	elsewhere := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	startEcho(t, harness.Launch(t, c.Launcher(), c.Spec("sandbox")))
	second := harness.Launch(t, c.Launcher(), c.Spec("second"))
	orchestrator := harness.Launch(t, c.Launcher(), c.Spec("orchestrator"))
	stranger := harness.Launch(t, elsewhere.Launcher(), elsewhere.Spec("stranger"))
	agent, other := atPod(t, c, "sandbox", agentPort), atPod(t, c, "sandbox", otherPort)
	for _, s := range []*launcher.Sandbox{second, orchestrator, stranger} {
		checkReached(t, s, agent, other)
	}
	apply(t, c, "networkpolicy.yaml")
	checkRefused(t, orchestrator, agent, other)

	harness.Label(t, c, orchestrator, "podagent.dev/orchestrator", "true")
	harness.Label(t, elsewhere, stranger, "podagent.dev/orchestrator", "true")
	apply(t, c, "networkpolicy-address.yaml")
	harness.Await(t, "the orchestrator's connection", func() bool { return reaches(t, orchestrator, agent) })
	checkRefused(t, orchestrator, other)
	checkRefused(t, second, agent, other)
	checkRefused(t, stranger, agent, other)
	checkReached(t, orchestrator, agent)
	if !nodeReaches(t, agent) {
		t.Error("the node does not reach the agent")
	}
}

func TestNoEgressPolicyLeavesSandboxesOnlyDNS(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	s := harness.Launch(t, c.Launcher(), c.Spec("sandbox"))
	harness.Launch(t, c.Launcher(), c.Spec("second"))
	dns := startDNS(t, c)
	outside := []target{
		listenAtMetadata(t, c), listenOnNode(t, c), apiServer(t, c), atPod(t, c, "second", agentPort),
		{"tcp", netip.AddrPortFrom(dns, otherPort)},
	}
	inside := []target{{"tcp", netip.AddrPortFrom(dns, 53)}, {"udp", netip.AddrPortFrom(dns, 53)}}
	service := apiService(t, c)
	checkReached(t, s, slices.Concat(outside, inside, []target{service})...)

	apply(t, c, "networkpolicy-no-egress.yaml")
	checkRefused(t, s, outside...)
	checkUnanswered(t, s, service)
	checkReached(t, s, inside...)
	harness.Put(t, s, "file", "the agent is still reached")

	err := c.API(t).NetworkingV1().NetworkPolicies(c.Namespace).Delete(t.Context(), "podagent-no-egress", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "a connection without the policy", func() bool { return reaches(t, s, outside[0]) })
	checkReached(t, s, outside...)
}

// startDNS runs a pod with the labels of the cluster's DNS, and returns its address.
func startDNS(t *testing.T, c *launchertest.Cluster) netip.Addr {
	t.Helper()
	pods := c.API(t).CoreV1().Pods("kube-system")
	now, no := int64(0), false
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "dns-", Labels: map[string]string{"k8s-app": "kube-dns"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &now, AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64)}, // root, for a port that low
			Containers:      []corev1.Container{{Name: "dns", Image: c.Image, Command: echoCommand(53, otherPort)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Error(err)
		}
	})
	harness.Await(t, "the DNS", func() bool {
		log, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		return err == nil && strings.Contains(string(log), "ready")
	})
	harness.Await(t, "its address", func() bool { // the node reports it later than the pod serves
		pod, err = pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		return err != nil || pod.Status.PodIP != ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddr(pod.Status.PodIP)
}

// network is where the test cluster's pods are, from its cluster.json.
type network struct {
	Bridge, BridgeAddress, Subnet string
	Ports                         map[string]int // of the node's programs
}

func networkOf(t *testing.T, c *launchertest.Cluster) (n network) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(c.Kubeconfig), "cluster.json"))
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// metadataAddress is locked while a test listens at that address.
var metadataAddress sync.Mutex

// listenAtMetadata serves at the address where clouds have a machine's credentials.
// The test cluster leads pods that ask for it here. For the machine itself, the
// address stays what it is, so the sockets must be told that they may have it. One test at a time has it.
func listenAtMetadata(t *testing.T, c *launchertest.Cluster) target {
	t.Helper()
	metadataAddress.Lock()
	t.Cleanup(metadataAddress.Unlock)
	to := target{"tcp", netip.MustParseAddrPort("169.254.169.254:80")}
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		bind := conn.Control(func(fd uintptr) {
			if err = syscall.SetsockoptInt(int(fd), syscall.SOL_IP, syscall.IP_TRANSPARENT, 1); err == nil {
				err = syscall.BindToDevice(int(fd), networkOf(t, c).Bridge)
			}
		})
		if bind != nil {
			return bind
		}
		return err
	}}
	l, err := config.Listen(t.Context(), "tcp4", to.address.String())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	t.Cleanup(func() { server.Close() })
	go func() { _ = server.Serve(l) }()
	return to
}

// listenOnNode listens on the node's own address.
func listenOnNode(t *testing.T, c *launchertest.Cluster) target {
	t.Helper()
	l, err := net.Listen("tcp4", net.JoinHostPort(networkOf(t, c).BridgeAddress, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return target{"tcp", netip.MustParseAddrPort(l.Addr().String())}
}

// apiServer is the API server's own address, and apiService that of its Service.
func apiServer(t *testing.T, c *launchertest.Cluster) target {
	t.Helper()
	to, err := netip.ParseAddrPort(strings.TrimPrefix(c.Admin.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	return target{"tcp", to}
}

func apiService(t *testing.T, c *launchertest.Cluster) target {
	t.Helper()
	service, err := c.API(t).CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return target{"tcp", netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIP), uint16(service.Spec.Ports[0].Port))}
}

// The policies of the chart equal those of deploy/, except for that of the MCP
// server, and that orchestrators are in the release's namespace.
func TestChartsPoliciesAdmitWhomTheValuesName(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	r.secret(t, "podagent-mcp", mcpToken)
	release, sandboxes := *r.cluster, *r.cluster
	release.Namespace, sandboxes.Namespace = r.namespace, r.sandboxes
	r.helm(t, "install", append([]string{
		chart,
		"--set", "networkPolicy.address=true,mcp.settings.image=" + r.cluster.Image,
		"--set", "mcp.allowRemote=true,mcp.allowFrom[0].podSelector.matchLabels.client=mcp",
	}, chartMCP...)...)
	inRelease := map[string]*launcher.Sandbox{}
	for _, c := range []*launchertest.Cluster{&release, &sandboxes} {
		c.Connection, c.Orchestrator = launcher.ByAddress, c.Admin
		harness.Await(t, "the namespace's account", func() bool {
			_, err := c.API(t).CoreV1().ServiceAccounts(c.Namespace).Get(t.Context(), "default", metav1.GetOptions{})
			return err == nil
		})
	}
	for _, id := range []string{"orchestrator", "client"} {
		inRelease[id] = harness.Launch(t, release.Launcher(), release.Spec(id))
	}
	harness.Launch(t, sandboxes.Launcher(), sandboxes.Spec("sandbox"))
	second := harness.Launch(t, sandboxes.Launcher(), sandboxes.Spec("second"))
	harness.Label(t, &release, inRelease["orchestrator"], "podagent.dev/orchestrator", "true")
	harness.Label(t, &release, inRelease["client"], "client", "mcp")
	harness.Label(t, &sandboxes, second, "podagent.dev/orchestrator", "true")

	agent, server := atPod(t, &sandboxes, "sandbox", agentPort), mcpServer(t, r)
	for name, to := range map[string]struct{ admitted, refused target }{
		"orchestrator": {agent, server}, "client": {server, agent},
	} {
		harness.Await(t, "the connection of the "+name, func() bool { return reaches(t, inRelease[name], to.admitted) })
		checkRefused(t, inRelease[name], to.refused)
		checkReached(t, inRelease[name], to.admitted)
	}
	checkRefused(t, second, agent, server)
	if !nodeReaches(t, server) || !nodeReaches(t, agent) {
		t.Error("the node does not reach its pods")
	}
}

// mcpServer returns the port of the chart's MCP server.
func mcpServer(t *testing.T, r *release) target {
	t.Helper()
	list, err := r.cluster.API(t).CoreV1().Pods(r.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=mcp"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("there are %d servers, %v", len(list.Items), err)
	}
	pod := list.Items[0]
	return target{"tcp", netip.AddrPortFrom(netip.MustParseAddr(pod.Status.PodIP), uint16(pod.Spec.Containers[0].Ports[0].ContainerPort))}
}
