package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hung is how long something may take that takes no time.
const hung = 2 * time.Minute

// host is a network namespace: the node, or a pod. Its goroutine keeps a thread to
// itself. The namespace ends with the thread, even if the tests are killed.
type host struct {
	thread int
	work   chan func()
}

// newHost returns a host whose only interface is the loopback.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{work: make(chan func())}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this function
		h.thread = unix.Gettid()
		started <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range h.work {
			f()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("cannot make a network namespace: %v", err)
	}
	t.Cleanup(func() { close(h.work) })
	h.ip(t, "link set lo up")
	return h
}

// do calls a function in the host. The sockets that it makes are the host's.
func (h *host) do(f func()) {
	done := make(chan struct{})
	h.work <- func() { defer close(done); f() }
	<-done
}

// ip runs ip with arguments that have no spaces.
func (h *host) ip(t *testing.T, arguments string) {
	t.Helper()
	var out []byte
	var err error
	h.do(func() { out, err = exec.Command("ip", strings.Fields(arguments)...).CombinedOutput() })
	if err != nil {
		t.Fatalf("ip %s: %v: %s", arguments, err, out)
	}
}

// listen sends back what it gets by TCP and UDP at a port, until the test ends. Port
// 0 stands for a free one.
func (h *host) listen(t *testing.T, address netip.Addr, port uint16) netip.AddrPort {
	t.Helper()
	var l net.Listener
	var p net.PacketConn
	var err error
	h.do(func() {
		if l, err = net.Listen("tcp4", netip.AddrPortFrom(address, port).String()); err == nil {
			p, err = net.ListenPacket("udp4", l.Addr().String())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); p.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() { _, _ = io.Copy(conn, conn); conn.Close() }()
		}
	}()
	go func() {
		data := make([]byte, 16)
		for n, from, err := p.ReadFrom(data); err == nil; n, from, err = p.ReadFrom(data) {
			_, _ = p.WriteTo(data[:n], from)
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// dial connects to an address.
func (h *host) dial(network string, to netip.AddrPort) (conn net.Conn, err error) {
	h.do(func() { conn, err = net.DialTimeout(network, to.String(), hung) })
	return conn, err
}

// reaches reports whether a connection is made. It fails the test if the connection
// is neither made nor refused.
func (h *host) reaches(t *testing.T, to netip.AddrPort) bool {
	t.Helper()
	conn, err := h.dial("tcp4", to)
	if err == nil {
		conn.Close()
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting to %s: %v", to, err)
	}
	return err == nil
}

// reachesByUDP reports whether a packet is answered. It fails the test if the packet
// is neither answered nor refused.
func (h *host) reachesByUDP(t *testing.T, to netip.AddrPort) bool {
	t.Helper()
	conn, err := h.dial("udp4", to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(hung)); err != nil {
		t.Fatal(err)
	}
	if _, err = conn.Write([]byte("x")); err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if err != nil && !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("sending to %s: %v", to, err)
	}
	return err == nil
}

// lab is a node with pods on a bridge.
type lab struct {
	node   *host
	filter filter
	pods   []*host
}

const (
	labNode   = "10.9.0.1"
	labBridge = "cluster0"
)

// newLab returns a lab whose pods have the addresses from 10.9.0.2 on.
func newLab(t *testing.T, pods int) *lab {
	t.Helper()
	l := &lab{node: newHost(t), filter: filter{table: "lab", bridge: labBridge}}
	l.node.do(func() { // many packets are refused in a short time here
		if err := os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0o644); err != nil {
			t.Error(err)
		}
	})
	l.pods = l.beside(t, labBridge, pods)
	l.node.ip(t, "address add "+labNode+"/24 dev "+labBridge)
	return l
}

// beside adds a bridge with pods, and returns these.
func (l *lab) beside(t *testing.T, bridge string, pods int) (all []*host) {
	t.Helper()
	l.node.ip(t, "link add "+bridge+" type bridge nf_call_iptables 1 nf_call_ip6tables 1")
	l.node.ip(t, "link set "+bridge+" up")
	for i := range pods {
		pod, port := newHost(t), fmt.Sprintf("%s-%d", bridge, i)
		l.node.ip(t, "link add "+port+" type veth peer name eth0 netns "+strconv.Itoa(pod.thread))
		l.node.ip(t, "link set "+port+" master "+bridge+" up")
		pod.ip(t, "address add "+podAddress(i).String()+"/24 dev eth0")
		pod.ip(t, "link set eth0 up")
		pod.ip(t, "route add default via "+labNode)
		all = append(all, pod)
	}
	return all
}

// podAddress returns the address of a lab's pod.
func podAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(2 + i)}) }

// put puts rules in force.
func (l *lab) put(t *testing.T, r rules) {
	t.Helper()
	var err error
	l.node.do(func() { err = l.filter.replace(r) })
	if err != nil {
		t.Fatal(err)
	}
}
