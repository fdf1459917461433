package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestTheFirstFreeSlotIsTaken(t *testing.T) {
	slot, err := firstFree(func(slot int) error {
		if slot < 3 {
			return errors.New("in use")
		}
		return nil
	})
	if err != nil || slot != 3 {
		t.Errorf("got slot %d, %v; want 3", slot, err)
	}
}

func TestNoFreeSlotNamesWhoHoldsEach(t *testing.T) {
	_, err := firstFree(func(slot int) error { return fmt.Errorf("holder-%d", slot) })
	if err == nil {
		t.Fatal("a slot is free")
	}
	for slot := range slots {
		if !strings.Contains(err.Error(), fmt.Sprintf("holder-%d", slot)) {
			t.Errorf("%v does not name the holder of slot %d", err, slot)
		}
	}
}

func TestSlotsShareNothing(t *testing.T) {
	owners := map[string]int{}
	var subnets []netip.Prefix
	for slot := range slots {
		l := newLayout("/dir", "/bin", slot)
		keys := []string{l.Bridge, l.Node, l.CgroupRoot, l.APIServer, l.BridgeAddress}
		for _, port := range l.Ports {
			keys = append(keys, fmt.Sprint("port ", port))
			if port >= 32768 {
				t.Errorf("port %d of slot %d is in the ephemeral range", port, slot)
			}
		}
		for _, key := range keys {
			if other, ok := owners[key]; ok && other != slot {
				t.Errorf("slots %d and %d share %s", other, slot, key)
			}
			owners[key] = slot
		}
		subnet := netip.MustParsePrefix(l.Subnet)
		for _, other := range subnets {
			if other.Overlaps(subnet) {
				t.Errorf("subnets %v and %v overlap", other, subnet)
			}
		}
		subnets = append(subnets, subnet)
		if len(l.Bridge) > 15 { // IFNAMSIZ without its NUL
			t.Errorf("no interface can have the name %s", l.Bridge)
		}
	}
}

func TestSocketPathsFitInDeepDirectories(t *testing.T) {
	l := newLayout("/"+strings.Repeat("deep/", 60), "/bin", slots-1)
	for _, path := range []string{l.ContainerdSocket, l.KubeletRoot + "/pod-resources/kubelet.sock"} {
		if len(path) > maxSocketPath {
			t.Errorf("%s has %d bytes", path, len(path))
		}
	}
	if short := newLayout("/short", "/bin", 0); short.KubeletRoot != "/short/kubelet" {
		t.Errorf("volumes are in %s, outside the directory", short.KubeletRoot)
	}
}

func TestATakenPortNamesItsHolder(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		err = portFree(fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d (", os.Getpid())) {
			t.Errorf("%s: got %v; want an error that names process %d", listen, err, os.Getpid())
		}
		l.Close()
		if err := portFree(fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			t.Errorf("%s: after its listener closed: %v", listen, err)
		}
	}
}

func TestAListenerElsewhereLeavesTheAddressFree(t *testing.T) {
	var err error
	for range 100 { // of which another process may have some at 127.0.0.1
		l, listenErr := net.Listen("tcp", "127.0.0.2:0")
		if listenErr != nil {
			t.Fatal(listenErr)
		}
		err = portFree(fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port))
		l.Close()
		if err == nil {
			return
		}
	}
	t.Error(err)
}

func TestATakenSubnetNamesItsInterface(t *testing.T) {
	if err := subnetTaken("127.0.0.0/22", "podagent-0"); err == nil || !strings.Contains(err.Error(), "interface lo") {
		t.Errorf("got %v; want an error that names lo", err)
	}
	if err := subnetTaken("127.0.0.0/22", "lo"); err != nil {
		t.Errorf("the cluster's own interface: %v", err)
	}
}

func TestATakenBridgeIsNamed(t *testing.T) {
	l := newLayout(t.TempDir(), "", slots-1)
	if err := l.taken(true); err != nil {
		t.Fatalf("the last slot should be free: %v", err)
	}
	add := []string{"link", "add", l.Bridge, "type", "bridge"}
	if _, err := command(t.Context(), hung, "ip", add...); err != nil {
		t.Fatalf("cannot make an interface: run the tests as root: %v", err)
	}
	defer func() { _, _ = command(context.Background(), hung, "ip", "link", "delete", l.Bridge) }()
	if err := l.taken(true); err == nil || !strings.Contains(err.Error(), "interface "+l.Bridge) {
		t.Errorf("got %v; want an error that names %s", err, l.Bridge)
	}
}

func TestASlotIsClaimedAsLongAsItsDirectoryIsThere(t *testing.T) {
	const slot = slots - 2
	dir := t.TempDir()
	if err := writeFile(claimPath(slot), []byte(dir)); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(claimPath(slot))
	if got, err := claimed(dir); err != nil || got != slot {
		t.Errorf("the directory has claimed slot %d, %v; want %d", got, err, slot)
	}
	other := newLayout(t.TempDir(), "", slot)
	if err := other.taken(true); err != nil {
		t.Errorf("a claim of a directory without a cluster counts: %v", err)
	}
	if err := writeJSON(dir+"/cluster.json", newLayout(dir, "", slot).facts); err != nil {
		t.Fatal(err)
	}
	if err := other.taken(true); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v; want an error that names %s", err, dir)
	}
}
