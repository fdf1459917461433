package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// makeNetwork makes the bridge and the packet filter's rules, unless they are
// there. The kubelet and the API server listen on the bridge's address, so it
// exists before any pod does.
func (c *cluster) makeNetwork(ctx context.Context) error {
	if !exists(interfacePath(c.Bridge)) {
		if _, err := command(ctx, commandTimeout, "ip", "link", "add", c.Bridge, "address", c.bridgeMAC(), "type", "bridge"); err != nil {
			return fmt.Errorf("cannot make the bridge: %w", err)
		}
	}
	prefix := netip.MustParsePrefix(c.Subnet)
	address := fmt.Sprintf("%s/%d", c.BridgeAddress, prefix.Bits())
	for _, args := range [][]string{
		{"link", "set", c.Bridge, "alias", c.alias()},
		{"link", "set", c.Bridge, "addrgenmode", "none"}, // no address that nobody asked for
		{"address", "replace", address, "dev", c.Bridge},
		{"link", "set", c.Bridge, "up"},
	} {
		if _, err := command(ctx, commandTimeout, "ip", args...); err != nil {
			return fmt.Errorf("cannot set up the bridge: %w", err)
		}
	}
	for _, rule := range c.rules() {
		if _, err := rule.do(ctx, "-C"); err == nil {
			continue
		}
		if _, err := rule.do(ctx, "-I"); err != nil {
			return fmt.Errorf("cannot set up the packet filter: %w", err)
		}
	}
	return nil
}

// alias marks the bridge as this cluster's.
func (c *cluster) alias() string { return "podagent cluster " + c.ID }

// bridgeMAC is fixed: a bridge would else take that of a pod, and change it as
// pods come and go, while others still remember the last one.
func (c *cluster) bridgeMAC() string {
	a := netip.MustParseAddr(c.BridgeAddress).As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}

// interfacePath is where the kernel shows a network interface.
func interfacePath(name string) string { return filepath.Join("/sys/class/net", name) }

// rule is one of the packet filter.
type rule struct {
	table, chain string
	match        []string
}

// do adds (-I), checks (-C) or deletes (-D) the rule.
func (r rule) do(ctx context.Context, verb string) (string, error) {
	return command(ctx, commandTimeout, "iptables", append([]string{"-w", "-t", r.table, verb, r.chain}, r.match...)...)
}

// rules are the cluster's: pods reach the API server under its service's
// address, and each other also where the machine forwards nothing by default.
func (c *cluster) rules() []rule {
	comment := []string{"-m", "comment", "--comment", c.cniNetwork()}
	return []rule{
		{"nat", "PREROUTING", append([]string{
			"-i", c.Bridge, "-d", serviceAddress + "/32", "-p", "tcp", "--dport", "443",
			"-j", "DNAT", "--to-destination", c.bridged("apiserver"),
		}, comment...)},
		{"filter", "FORWARD", append([]string{"-i", c.Bridge, "-o", c.Bridge, "-j", "ACCEPT"}, comment...)},
	}
}

// writeCNIConfig writes the pods' network. It is not the bridge plugin that is
// the gateway, because it would make the whole machine a router.
func (c *cluster) writeCNIConfig() error {
	type object map[string]any
	first := netip.MustParseAddr(c.BridgeAddress).Next().String()
	return writeJSON(c.path("etc", "cni", "pods.conflist"), object{
		"cniVersion": "0.4.0", "name": c.cniNetwork(),
		"plugins": []object{{
			"type": "bridge", "bridge": c.Bridge, "isGateway": false, "ipMasq": false,
			"ipam": object{
				"type": "host-local", "dataDir": c.path("cni"),
				"ranges": [][]object{{{"subnet": c.Subnet, "rangeStart": first, "gateway": c.BridgeAddress}}},
				"routes": []object{{"dst": "0.0.0.0/0", "gw": c.BridgeAddress}},
			},
		}},
	})
}

// removeNetwork removes the pods' interfaces, the bridge, the rules, and what
// the CNI library remembers of the pods.
func (c *cluster) removeNetwork(ctx context.Context) error {
	var errs []error
	if c.ownsBridge() {
		ports, _ := filepath.Glob(filepath.Join(interfacePath(c.Bridge), "brif", "*"))
		for _, port := range append(ports, c.Bridge) {
			_, err := command(ctx, commandTimeout, "ip", "link", "delete", filepath.Base(port))
			if err != nil && exists(interfacePath(filepath.Base(port))) { // else it has gone with its pod
				errs = append(errs, err)
			}
		}
	}
	for _, rule := range c.rules() {
		if _, err := rule.do(ctx, "-C"); err == nil {
			_, err = rule.do(ctx, "-D")
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, c.removeCNIResults())...)
}

// ownsBridge reports whether the bridge is there and this cluster's.
func (c *cluster) ownsBridge() bool {
	alias, err := os.ReadFile(filepath.Join(interfacePath(c.Bridge), "ifalias"))
	return err == nil && strings.TrimSpace(string(alias)) == c.alias()
}

// removeCNIResults removes the results that the CNI library keeps of this
// cluster's pods, in a directory that all networks of the machine share. Those
// of the loopback plugin name the pod's network namespace only.
func (c *cluster) removeCNIResults() error {
	const results = "/var/lib/cni/results"
	var errs []error
	own, _ := filepath.Glob(filepath.Join(results, c.cniNetwork()+"-*"))
	loopback, _ := filepath.Glob(filepath.Join(results, "cni-loopback-*"))
	for _, path := range loopback {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), c.run()+"/") {
			own = append(own, path)
		}
	}
	for _, path := range own {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}
