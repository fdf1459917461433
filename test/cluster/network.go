package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// makeNetwork makes the bridge and the packet filter rules, unless they exist. The
// kubelet and the API server listen on the bridge's address, so it must exist
// before any pod.
func (c *cluster) makeNetwork(ctx context.Context) error {
	if err := loadBridgeFilter(ctx); err != nil {
		return err
	}
	if !exists(interfacePath(c.Bridge)) {
		if _, err := command(ctx, commandTimeout, "ip", "link", "add", c.Bridge, "address", c.bridgeMAC(), "type", "bridge"); err != nil {
			return fmt.Errorf("cannot make the bridge: %w", err)
		}
	}
	prefix := netip.MustParsePrefix(c.Subnet)
	address := fmt.Sprintf("%s/%d", c.BridgeAddress, prefix.Bits())
	for _, args := range [][]string{
		{"link", "set", c.Bridge, "alias", c.alias()},
		{"link", "set", c.Bridge, "addrgenmode", "none"}, // no automatic addresses
		// What pods send to each other passes the packet filter, which policies need.
		{"link", "set", c.Bridge, "type", "bridge", "nf_call_iptables", "1", "nf_call_ip6tables", "1"},
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
	return c.routeMetadata(ctx)
}

// loadBridgeFilter loads the module by which bridges call the packet filter, unless
// the kernel has it already. The other bridges of the machine go on without.
func loadBridgeFilter(ctx context.Context) error {
	const settings = "/proc/sys/net/bridge"
	if exists(settings) {
		return nil
	}
	if _, err := command(ctx, commandTimeout, "modprobe", "br_netfilter"); err != nil {
		return fmt.Errorf("cannot enforce network policies: %w", err)
	}
	var errs []error
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables"} {
		errs = append(errs, os.WriteFile(filepath.Join(settings, name), []byte("0\n"), 0o644))
	}
	return errors.Join(errs...)
}

// metadataAddress is where clouds serve the credentials of a machine to whatever
// runs on it.
const metadataAddress = "169.254.169.254"

// metadataRule selects what pods send to the metadata address, and the routing table
// for it, which is named by a number of this cluster's own.
func (c *cluster) metadataRule() []string {
	return []string{"iif", c.Bridge, "to", metadataAddress, "lookup", fmt.Sprint(c.Ports["apiserver"])}
}

// routeMetadata makes pods' metadata address one of this machine, where a test can
// listen in place of a cloud. For the machine itself it stays what it was.
func (c *cluster) routeMetadata(ctx context.Context) error {
	if err := c.removeMetadataRule(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		append([]string{"rule", "add"}, c.metadataRule()...),
		{"route", "replace", "local", metadataAddress, "dev", c.Bridge, "table", fmt.Sprint(c.Ports["apiserver"])},
	} {
		if _, err := command(ctx, commandTimeout, "ip", args...); err != nil {
			return fmt.Errorf("cannot route the metadata address: %w", err)
		}
	}
	return nil
}

// removeMetadataRule removes the rule if it exists. The route goes with the bridge.
func (c *cluster) removeMetadataRule(ctx context.Context) error {
	rules, err := command(ctx, commandTimeout, "ip", "rule", "show", "iif", c.Bridge)
	if err != nil || strings.TrimSpace(rules) == "" {
		return err
	}
	_, err = command(ctx, commandTimeout, "ip", append([]string{"rule", "del"}, c.metadataRule()...)...)
	return err
}

// alias marks the bridge as this cluster's.
func (c *cluster) alias() string { return "podagent cluster " + c.ID }

// bridgeMAC returns a fixed address. Without one, the bridge would take a pod's
// address, and change it as pods come and go while others still remember the last
// one.
func (c *cluster) bridgeMAC() string {
	a := netip.MustParseAddr(c.BridgeAddress).As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3])
}

// interfacePath returns where the kernel shows a network interface.
func interfacePath(name string) string { return filepath.Join("/sys/class/net", name) }

// rule is a rule of the packet filter.
type rule struct {
	table, chain string
	match        []string
}

// do adds (-I), checks (-C) or deletes (-D) the rule.
func (r rule) do(ctx context.Context, verb string) (string, error) {
	return command(ctx, commandTimeout, "iptables", append([]string{"-w", "-t", r.table, verb, r.chain}, r.match...)...)
}

// rules returns the cluster's rules. Pods reach the API server under its service's
// address, and each other even if the machine forwards nothing by default.
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

// writeCNIConfig writes the pods' network. The bridge plugin is not the gateway,
// because it would make the whole machine a router.
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

// removeNetwork removes the pods' interfaces, the bridge, the rules, the policies, and
// the CNI library's records of the pods.
func (c *cluster) removeNetwork(ctx context.Context) error {
	var errs []error
	if c.ownsBridge() {
		ports, _ := filepath.Glob(filepath.Join(interfacePath(c.Bridge), "brif", "*"))
		for _, port := range append(ports, c.Bridge) {
			_, err := command(ctx, commandTimeout, "ip", "link", "delete", filepath.Base(port))
			if err != nil && exists(interfacePath(filepath.Base(port))) { // otherwise it has gone with its pod
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
	return errors.Join(append(errs, c.removeMetadataRule(ctx), c.removePolicies(), c.removeCNIResults())...)
}

// removePolicies removes the table of the program policies, which outlives it.
func (c *cluster) removePolicies() error {
	conn := &nftables.Conn{}
	conn.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: c.cniNetwork()})
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot remove the table of network policies: %w", err)
	}
	return nil
}

// ownsBridge reports whether the bridge exists and belongs to this cluster.
func (c *cluster) ownsBridge() bool {
	alias, err := os.ReadFile(filepath.Join(interfacePath(c.Bridge), "ifalias"))
	return err == nil && strings.TrimSpace(string(alias)) == c.alias()
}

// removeCNIResults removes the CNI library's results for this cluster's pods from a
// directory that all networks of the machine share. Results of the loopback plugin
// name only the pod's network namespace.
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
