package main

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The pods of a lab, in the order of their addresses: a server, two clients in its
// namespace, and one in another.
var labPods = []*corev1.Pod{
	labPod(0, "ours", "server", corev1.ContainerPort{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}),
	labPod(1, "ours", "friend"),
	labPod(2, "ours", "stranger"),
	labPod(3, "theirs", "friend"),
}

// labPod returns a pod with the label app.
func labPod(i int, namespace, app string, ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}},
		Status:     corev1.PodStatus{PodIP: podAddress(i).String(), Phase: corev1.PodRunning},
	}
}

// labNamespaces are the namespaces of the lab's pods.
var labNamespaces = []*corev1.Namespace{
	{ObjectMeta: metav1.ObjectMeta{Name: "ours", Labels: map[string]string{"team": "ours"}}},
	{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{"team": "theirs"}}},
}

// policies parses the specs of policies in the namespace of the server.
func policies(t *testing.T, specs ...string) (list []*networkingv1.NetworkPolicy) {
	t.Helper()
	for i, spec := range specs {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: fmt.Sprint(i)}}
		if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
			t.Fatal(err)
		}
		list = append(list, policy)
	}
	return list
}

// attempts are the connections and packets that each policy is tried with, by the
// names that the cases use. All come through without a policy.
var attempts = map[string]struct {
	from, to int // pods; the node is -1
	port     uint16
	udp      bool
}{
	"friend":              {from: 1, to: 0, port: 8080},
	"friend at 8081":      {from: 1, to: 0, port: 8081},
	"friend at 9000":      {from: 1, to: 0, port: 9000},
	"friend by UDP":       {from: 1, to: 0, port: 8080, udp: true},
	"stranger":            {from: 2, to: 0, port: 8080},
	"theirs":              {from: 3, to: 0, port: 8080},
	"node":                {from: -1, to: 0, port: 8080},
	"server to friend":    {from: 0, to: 1, port: 8080},
	"server to theirs":    {from: 0, to: 3, port: 8080},
	"server to the node":  {from: 0, to: -1, port: 8080},
	"stranger to friend":  {from: 2, to: 1, port: 8080},
	"stranger to theirs":  {from: 2, to: 3, port: 8080},
	"friend to the node":  {from: 1, to: -1, port: 8080},
	"theirs to ours":      {from: 3, to: 1, port: 8080},
	"server to UDP there": {from: 0, to: 1, port: 8080, udp: true},
}

const (
	ofServer = "podSelector: {matchLabels: {app: server}}\n"
	ingress  = ofServer + "policyTypes: [Ingress]\n"
	egress   = ofServer + "policyTypes: [Egress]\n"
)

// intoServer and fromServer are the attempts that a policy of the server can refuse.
var (
	intoServer = []string{"friend", "friend at 8081", "friend at 9000", "friend by UDP", "stranger", "theirs"}
	fromServer = []string{"server to friend", "server to theirs", "server to the node", "server to UDP there"}
)

// Each case names the attempts that its policies refuse. All others come through.
func TestPoliciesRefuseWhatTheyDoNotAllow(t *testing.T) {
	t.Parallel()
	l := newLab(t, len(labPods))
	for i, host := range append(l.pods, l.node) {
		address := podAddress(i)
		if host == l.node {
			address = netip.MustParseAddr(labNode)
		}
		for _, port := range []uint16{8080, 8081, 9000} {
			host.listen(t, address, port)
		}
	}
	for name, test := range map[string]struct {
		specs   []string
		refused []string
	}{
		"none":                  {nil, nil},
		"of no pod":             {[]string{"podSelector: {matchLabels: {app: none}}\npolicyTypes: [Ingress, Egress]"}, nil},
		"no ingress":            {[]string{ingress}, intoServer},
		"any ingress":           {[]string{ingress + "ingress: [{}]"}, nil},
		"ingress of a pod":      {[]string{ingress + "ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}]}]"}, []string{"stranger", "theirs"}},
		"ingress of ours":       {[]string{ingress + "ingress: [{from: [{podSelector: {}}]}]"}, []string{"theirs"}},
		"ingress of theirs":     {[]string{ingress + "ingress: [{from: [{namespaceSelector: {matchLabels: {team: theirs}}}]}]"}, without(intoServer, "theirs")},
		"ingress of all friend": {[]string{ingress + "ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: friend}}}]}]"}, []string{"stranger"}},
		"ingress of nobody":     {[]string{ingress + "ingress: [{from: [{podSelector: {matchLabels: {app: none}}}]}]"}, intoServer},
		"ingress of a block":    {[]string{ingress + "ingress: [{from: [{ipBlock: {cidr: 10.9.0.0/24, except: [10.9.0.4/32]}}]}]"}, []string{"stranger"}},
		"ingress at a port":     {[]string{ingress + "ingress: [{ports: [{port: 8080}]}]"}, []string{"friend at 8081", "friend at 9000", "friend by UDP"}},
		"ingress at a range":    {[]string{ingress + "ingress: [{ports: [{port: 8080, endPort: 8081}]}]"}, []string{"friend at 9000", "friend by UDP"}},
		"ingress at a name":     {[]string{ingress + "ingress: [{ports: [{port: web}]}]"}, []string{"friend at 8081", "friend at 9000", "friend by UDP"}},
		"ingress at no name":    {[]string{ingress + "ingress: [{ports: [{port: none}]}]"}, intoServer},
		"ingress by UDP":        {[]string{ingress + "ingress: [{ports: [{protocol: UDP}]}]"}, without(intoServer, "friend by UDP")},
		"ingress by two": {
			[]string{
				ingress + "ingress: [{from: [{podSelector: {matchLabels: {app: stranger}}}]}]",
				ingress + "ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: 9000}]}]",
			},
			[]string{"friend", "friend at 8081", "friend by UDP", "theirs"},
		},
		"no egress":         {[]string{egress}, fromServer},
		"any egress":        {[]string{egress + "egress: [{}]"}, nil},
		"egress to a pod":   {[]string{egress + "egress: [{to: [{podSelector: {matchLabels: {app: friend}}}]}]"}, []string{"server to theirs", "server to the node"}},
		"egress to a block": {[]string{egress + "egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [" + labNode + "/32]}}]}]"}, []string{"server to the node"}},
		"egress by UDP":     {[]string{egress + "egress: [{ports: [{protocol: UDP, port: 8080}]}]"}, without(fromServer, "server to UDP there")},
		"egress to a name": {
			[]string{"podSelector: {matchLabels: {app: friend}}\npolicyTypes: [Egress]\negress: [{ports: [{port: web}]}]"},
			[]string{"friend at 8081", "friend at 9000", "friend by UDP", "friend to the node"},
		},
		"egress, but no ingress there": {
			[]string{egress + "egress: [{}]", "podSelector: {matchLabels: {app: friend}}\npolicyTypes: [Ingress]"},
			[]string{"server to friend", "server to UDP there", "stranger to friend", "theirs to ours"},
		},
		"both of all": {
			[]string{"podSelector: {}\npolicyTypes: [Ingress, Egress]"},
			without(slices.Collect(maps.Keys(attempts)), "node"),
		},
	} {
		l.put(t, objects{policies(t, test.specs...), labPods, labNamespaces}.rules())
		slices.Sort(test.refused)
		if got := l.refused(t); !slices.Equal(got, test.refused) {
			t.Errorf("%s refuses\n%s\ninstead of\n%s", name, strings.Join(got, ", "), strings.Join(test.refused, ", "))
		}
	}
}

// without returns the other names.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// refused makes all attempts and returns the names of those that were refused, in
// order.
func (l *lab) refused(t *testing.T) (names []string) {
	t.Helper()
	for name, a := range attempts {
		from, to := l.node, netip.MustParseAddr(labNode)
		if a.from >= 0 {
			from = l.pods[a.from]
		}
		if a.to >= 0 {
			to = podAddress(a.to)
		}
		try := from.reaches
		if a.udp {
			try = from.reachesByUDP
		}
		if !try(t, netip.AddrPortFrom(to, a.port)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A pod that has ended keeps its address in its status, and another pod may have
// got it.
func TestOnlyPodsWithAnAddressOfTheirOwnAreIsolated(t *testing.T) {
	t.Parallel()
	ended, starting, ofNode := labPods[0].DeepCopy(), labPods[0].DeepCopy(), labPods[0].DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	starting.Status.PodIP = ""
	ofNode.Spec.HostNetwork = true
	o := objects{policies(t, ingress, egress), []*corev1.Pod{ended, starting, ofNode}, labNamespaces}
	if r := o.rules(); len(r.ingress)+len(r.egress) > 0 {
		t.Errorf("the rules are %v", r)
	}
}

func TestBlocksAreWithoutTheirExceptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cidr   string
		except []string
		want   string
	}{
		{"10.0.0.0/8", nil, "10.0.0.0-10.255.255.255"},
		{"10.1.2.3/32", nil, "10.1.2.3-10.1.2.3"},
		{"10.1.2.3/24", nil, "10.1.2.0-10.1.2.255"},
		{"0.0.0.0/0", nil, "0.0.0.0-255.255.255.255"},
		{"0.0.0.0/0", []string{"169.254.169.254/32"}, "0.0.0.0-169.254.169.253 169.254.169.255-255.255.255.255"},
		{"0.0.0.0/0", []string{"0.0.0.0/1", "255.255.255.255/32"}, "128.0.0.0-255.255.255.254"},
		{"10.0.0.0/24", []string{"10.0.0.0/25", "10.0.0.64/26", "10.0.0.255/32"}, "10.0.0.128-10.0.0.254"},
		{"10.0.0.0/24", []string{"10.0.0.0/24"}, ""},
		{"fd00::/8", nil, ""},
	} {
		var got []string
		for _, a := range merge(block(&networkingv1.IPBlock{CIDR: test.cidr, Except: test.except})) {
			got = append(got, fmt.Sprintf("%v-%v", a.first, a.last))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s without %v is %v instead of %s", test.cidr, test.except, got, test.want)
		}
	}
}

// The elements of a set may not touch.
func TestMergedAddressesDoNotTouch(t *testing.T) {
	t.Parallel()
	of := func(first, last string) addresses {
		return addresses{netip.MustParseAddr(first), netip.MustParseAddr(last)}
	}
	got := merge([]addresses{
		of("10.0.0.9", "10.0.0.9"), of("10.0.0.1", "10.0.0.6"), of("10.0.0.2", "10.0.0.3"), of("10.0.0.7", "10.0.0.7"),
		of("0.0.0.0", "0.0.0.1"), of("0.0.0.0", "0.0.0.0"), of("10.0.0.9", "10.0.0.9"), of("255.255.255.255", "255.255.255.255"),
	})
	want := []addresses{
		of("0.0.0.0", "0.0.0.1"), of("10.0.0.1", "10.0.0.7"), of("10.0.0.9", "10.0.0.9"), of("255.255.255.255", "255.255.255.255"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("they are %v instead of %v", got, want)
	}
}
