package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// How a call without the key ends. If it is unheard, nobody listens there.
const (
	noTLS          = `EOF|reset by peer|broken pipe`
	noCertificate  = `tls: certificate required`
	badCertificate = `tls: bad certificate`
	badSignature   = `tls: error decrypting message`
	oldVersion     = `protocol version not supported`
	unheard        = `connection refused`
	unimplemented  = `^unimplemented$`
	notConnected   = `operation not permitted`
	notPermitted   = `^operation not permitted$`
	harmless       = `^nothing$|^unreadable`
)

// insideWants has a pattern for the result of each way that testdata/intruder tries
// in the agent's pod.
var insideWants = map[string]string{
	"plaintext": noTLS,
	"TLS 1.0":   oldVersion,
	"TLS 1.1":   oldVersion,
	"TLS 1.2":   oldVersion,

	"TLS without a certificate":                          noCertificate,
	"TLS without a certificate, no ALPN":                 noCertificate,
	"TLS with a key of its own":                          badCertificate,
	"TLS with a key of its own, no ALPN":                 badCertificate,
	"TLS with the caller's key, not its secret":          badSignature,
	"TLS with the caller's key, not its secret, no ALPN": badSignature,
	"TLS with the agent's certificate":                   badCertificate,
	"TLS with the agent's certificate, no ALPN":          badCertificate,
	// If the memory cannot be read, there is no such key to try.
	"TLS with the agent's own key":          badCertificate + `|` + noCertificate,
	"TLS with the agent's own key, no ALPN": badCertificate + `|` + noCertificate,

	"the pod's address":         unheard,
	"the pod's address, by TLS": unheard,

	// Where the kernel confines commands by a Landlock domain, they cannot connect.
	"health socket: health":    `^answered$|` + notConnected,
	"health socket: info":      unimplemented + `|` + notConnected,
	"health socket: configure": unimplemented + `|` + notConnected,
	"health socket: stat":      unimplemented + `|` + notConnected,
	"health socket: write":     unimplemented + `|` + notConnected,
	"health socket: processes": unimplemented + `|` + notConnected,
	"health socket: exec":      unimplemented + `|` + notConnected,

	// The agent's own key must be found, which shows that the search works.
	"memory":                       `^unreadable|^has the agent's key: true, the caller's: false$`,
	"memory, overwritten":          `^unwritable`,
	"/proc/1/environ":              harmless,
	"/proc/1/cmdline":              harmless,
	"/proc/1/exe":                  harmless,
	"/proc/1/fd":                   harmless,
	"/var/run/secrets":             harmless,
	"/proc/1/root/var/run/secrets": harmless,

	"listening": `address already in use`,
	"KILL":      `^done$|not permitted`, // the kernel keeps KILL from process 1 in any case
	"STOP":      `^done$|not permitted`,
	"ptrace":    `^done$|not permitted`,
	"cluster":   `^40[13] `,

	"prlimit":            notPermitted,
	"setpriority":        notPermitted,
	"sched_setscheduler": notPermitted,
	"PR_SET_MM":          notPermitted,
}

// heardWants are the different results in the pod of an agent that also listens on
// its address.
var heardWants = map[string]string{
	"the pod's address":         noTLS,
	"the pod's address, by TLS": badCertificate,
}

// gVisorWants are the different results under gVisor, where a socket for all addresses may
// have a port that another has on the loopback. Connections to the loopback still go to
// that one.
var gVisorWants = map[string]string{"listening": `address already in use|^listens$`}

// outsideWants returns the results in another pod, for an agent that listens on its
// address or does not.
func outsideWants(listens bool) map[string]string {
	wants := map[string]string{
		"another port": `^connected$`, // so the network did not keep out the others
		"cluster":      `^40[13] `,
	}
	for way, want := range insideWants {
		if way == "plaintext" || strings.HasPrefix(way, "TLS ") {
			wants[way] = want
			if !listens {
				wants[way] = unheard
			}
		}
	}
	return wants
}

// invitedWants are the results of calls with the identity.
var invitedWants = map[string]string{
	"identity":              `^answered: info, resumed: false$`,
	"identity, again":       `^answered: info, resumed: false$`,
	"search for its secret": `^found a secret$`,
}

func TestNoCallFromInsideThePodIsAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile launcher.Profile
		way     launcher.Connection
		main    []string
		more    map[string]string
		class   string
	}{
		{launcher.Restricted, launcher.ByPortForward, nil, nil, ""},
		{launcher.Baseline, launcher.ByPortForward, nil, nil, ""},
		{launcher.Restricted, launcher.ByPortForward, besideMain, nil, ""},
		{launcher.Baseline, launcher.ByPortForward, besideMain, nil, ""},
		{launcher.Restricted, launcher.ByExec, nil, nil, ""}, // podagent connect runs in the same pod
		{launcher.Baseline, launcher.ByExec, nil, nil, ""},
		{launcher.Restricted, launcher.ByAddress, nil, heardWants, ""},
		{launcher.Baseline, launcher.ByAddress, nil, heardWants, ""},
		{launcher.Restricted, launcher.ByExec, nil, gVisorWants, gVisor},
	} {
		name := string(tt.profile) + " by " + string(tt.way)
		if tt.main != nil {
			name += " beside Main"
		}
		if tt.class != "" {
			name += " under " + tt.class
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, tt.profile).By(t, tt.way)
			spec := c.Spec(t.Name())
			spec.Pod.Profile, spec.Pod.Main, spec.Pod.RuntimeClass = tt.profile, tt.main, tt.class
			wants := maps.Clone(insideWants)
			maps.Copy(wants, tt.more)
			l := c.Launcher()
			s := harness.Launch(t, l, spec)
			boot := harness.BootOf(t, s)
			i := intruder{s, append(urls(t, c), "INTRUDER_KEY="+c.Identity.AuthorizedKey().String())}
			harness.PutProgram(t, i.s, "intruder")
			check(t, i.reports(t, nil, "inside"), wants)
			squatted(t, i, l)
			if got := harness.Names(t, s, "."); !slices.Equal(got, []string{"intruder"}) {
				t.Errorf("the workspace has %q", got)
			}
			checkInvited(t, i, c.Identity)
			if got := harness.BootOf(t, s); got != boot {
				t.Error("the agent was restarted")
			}
		})
	}
}

func TestNoCallFromAnotherPodIsAnswered(t *testing.T) {
	overEachWay(t, testOtherPod)
}

func testOtherPod(t *testing.T, c *launchertest.Cluster) {
	l := c.Launcher()
	victim := intruder{harness.Launch(t, l, c.Spec("victim")), nil}
	harness.PutProgram(t, victim.s, "intruder")
	const port = "7464"
	victim.background(t, "listen", port)
	other := intruder{harness.Launch(t, l, c.Spec("other")), append(urls(t, c), "INTRUDER_PORT="+port, "INTRUDER_KEY="+c.Identity.AuthorizedKey().String())}
	harness.PutProgram(t, other.s, "intruder")
	pod := runningPodOf(t, c, "victim")
	check(t, other.reports(t, nil, "outside", pod.Status.PodIP), outsideWants(c.Connection == launcher.ByAddress))
}

// besideMain is a command that runs beside the agent.
var besideMain = []string{"sleep", "infinity"}

// checkInvited checks that calls with the identity are answered, so the other calls
// lacked nothing else.
func checkInvited(t *testing.T, i intruder, identity podapi.Identity) {
	t.Helper()
	secret, err := identity.MarshalPEM()
	if err != nil {
		t.Fatal(err)
	}
	check(t, i.reports(t, secret, "invited"), invitedWants)
}

// squatted checks that the launcher reaches the agent even if another process uses
// its port on the IPv6 loopback.
func squatted(t *testing.T, i intruder, l launcher.Launcher) {
	t.Helper()
	t.Log("[::1]:", i.background(t, "squat"))
	again, err := l.Open(t.Context(), i.s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if harness.BootOf(t, again) != harness.BootOf(t, i.s) {
		t.Error("somebody else answered")
	}
}

// report is the result of one of the intruder's ways.
type report struct{ Way, Got string }

// check checks the result of each way.
func check(t *testing.T, reports []report, wants map[string]string) {
	t.Helper()
	tried := map[string]bool{}
	for _, r := range reports {
		tried[r.Way] = true
		want, ok := wants[r.Way]
		if !ok || !regexp.MustCompile(want).MatchString(r.Got) {
			t.Errorf("%s: %s (want %s)", r.Way, r.Got, want)
		}
		t.Logf("%s: %s", r.Way, r.Got)
	}
	for _, way := range slices.Sorted(maps.Keys(wants)) {
		if !tried[way] {
			t.Errorf("%s was not tried", way)
		}
	}
}

// urls returns the URLs in the cluster that the intruder should request.
func urls(t *testing.T, c *launchertest.Cluster) []string {
	t.Helper()
	nodes, err := c.API(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := "/api/v1/namespaces/" + c.Namespace + "/pods"
	list := []string{c.Admin.Host + pods, c.Admin.Host + pods + "/any/portforward?ports=7463"}
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				kubelet := fmt.Sprintf("https://%s:%d", a.Address, n.Status.DaemonEndpoints.KubeletEndpoint.Port)
				list = append(list, kubelet+"/pods", kubelet+"/portForward/"+c.Namespace+"/any")
			}
		}
	}
	return []string{"INTRUDER_URLS=" + strings.Join(list, " ")}
}

// intruder is testdata/intruder in a sandbox.
type intruder struct {
	s   *launcher.Sandbox
	env []string
}

func (i intruder) command(t *testing.T, stdin []byte, args ...string) *podapi.Cmd {
	cmd := i.s.Command(t.Context(), "./intruder", args...)
	cmd.Env, cmd.Timeout = i.env, harness.Hung
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	return cmd
}

// reports runs the intruder and returns its reports.
func (i intruder) reports(t *testing.T, stdin []byte, args ...string) []report {
	t.Helper()
	out, err := i.command(t, stdin, args...).Output()
	if err != nil {
		exit, _ := errors.AsType[*podapi.ExitError](err)
		t.Fatalf("%v: %+v\n%s", err, exit, out)
	}
	var list []report
	for line := range bytes.Lines(out) {
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, r)
	}
	return list
}

// background runs the intruder until the test ends, and returns the first line of
// its output.
func (i intruder) background(t *testing.T, args ...string) string {
	t.Helper()
	cmd := i.command(t, nil, args...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
