package main

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// nobody isolates pods in a direction.
func nobody(pods ...netip.Addr) map[netip.Addr][]allow {
	isolated := map[netip.Addr][]allow{}
	for _, pod := range pods {
		isolated[pod] = nil
	}
	return isolated
}

// The first packet decides. What belongs to the connection then passes in both
// directions.
func TestAConnectionOutlivesTheIsolationOfItsPods(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	server := l.pods[0].listen(t, podAddress(0), 0)
	l.put(t, rules{})
	conn, err := l.pods[1].dial("tcp4", server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l.put(t, rules{ingress: nobody(podAddress(0), podAddress(1)), egress: nobody(podAddress(0), podAddress(1))})
	if l.pods[1].reaches(t, server) {
		t.Error("a new connection is made")
	}
	fmt.Fprintln(conn, "still here")
	if err := conn.SetReadDeadline(time.Now().Add(hung)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "still here\n" {
		t.Errorf("the one that existed answers %q, %v", line, err)
	}
}

func TestTheNodeReachesIsolatedPodsAndTheyDoNotReachIt(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	pod, node := l.pods[0].listen(t, podAddress(0), 0), l.node.listen(t, netip.MustParseAddr(labNode), 0)
	l.put(t, rules{})
	if !l.pods[0].reaches(t, node) {
		t.Error("a pod that is not isolated does not reach the node")
	}
	l.put(t, rules{ingress: nobody(podAddress(0)), egress: nobody(podAddress(0))})
	if !l.node.reaches(t, pod) {
		t.Error("the node does not reach an isolated pod")
	}
	if l.pods[0].reaches(t, node) {
		t.Error("an isolated pod reaches the node")
	}
}

func TestPodsOnAnotherBridgeAreLeftAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	others := l.beside(t, "cluster1", 2) // they even have the same addresses
	server := l.pods[0].listen(t, podAddress(0), 0)
	others[0].listen(t, podAddress(0), server.Port())
	l.put(t, rules{ingress: nobody(podAddress(0), podAddress(1)), egress: nobody(podAddress(0), podAddress(1))})
	if l.pods[1].reaches(t, server) {
		t.Error("a pod on the bridge is not isolated")
	}
	if !others[1].reaches(t, server) {
		t.Error("a pod on another bridge is isolated")
	}
}

// Policies know pods by their IPv4 addresses. They must not get around them by the
// link-local addresses that Linux gives to every interface.
func TestPodsDoNotReachEachOtherByIPv6(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	for i, pod := range l.pods {
		pod.ip(t, fmt.Sprintf("address add fd00::%d/64 dev eth0 nodad", i+1))
	}
	listening := make(chan net.Listener, 1)
	l.pods[0].do(func() {
		if l, err := net.Listen("tcp6", "[fd00::1]:0"); err == nil {
			listening <- l
		} else {
			t.Error(err)
			listening <- nil
		}
	})
	server := <-listening
	if server == nil {
		return
	}
	defer server.Close()
	to := netip.MustParseAddrPort(server.Addr().String())
	if conn, err := l.pods[1].dial("tcp6", to); err != nil {
		t.Errorf("without the filter: %v", err)
	} else {
		conn.Close()
	}
	l.pods[1].ip(t, "neighbour flush dev eth0")
	l.put(t, rules{})
	if _, err := l.pods[1].dial("tcp6", to); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("with the filter: %v", err)
	}
}

// A cluster has at most a few hundred pods. All rules are sent to the kernel at
// once, and need room on the way.
func TestRulesForHundredsOfPodsFit(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	server := l.pods[0].listen(t, podAddress(0), 0)
	r := rules{ingress: map[netip.Addr][]allow{}}
	client := netip.MustParseAddr("10.10.0.0")
	var clients []addresses
	for i := range 600 {
		client = client.Next().Next()
		clients = append(clients, addresses{client, client})
		r.ingress[client] = []allow{{peers: clients[i : i+1], ports: []ports{{6, uint16(i), uint16(i)}}}}
	}
	r.ingress[podAddress(0)] = nil
	l.put(t, r)
	if l.pods[1].reaches(t, server) {
		t.Error("the pod is not isolated")
	}
	r.ingress[podAddress(0)] = []allow{{peers: merge(append(clients, addresses{podAddress(1), podAddress(1)}))}}
	l.put(t, r)
	if !l.pods[1].reaches(t, server) {
		t.Error("the pod does not get what is allowed")
	}
}

func TestTheTableIsCheckedAndReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	server := l.pods[0].listen(t, podAddress(0), 0)
	var before, after error
	l.node.do(func() { before = l.filter.check() })
	for range 3 {
		l.put(t, rules{ingress: nobody(podAddress(0))})
		if l.pods[1].reaches(t, server) {
			t.Error("an isolated pod is reached")
		}
		l.put(t, rules{})
		if !l.pods[1].reaches(t, server) {
			t.Error("the last rules are still in force")
		}
	}
	l.node.do(func() { after = l.filter.check() })
	if before == nil || after != nil {
		t.Errorf("before the first rules: %v, and after: %v", before, after)
	}
}
