package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// bridgeTaken returns an error if an interface has the bridge's name but is not
// this cluster's.
func (l layout) bridgeTaken() error {
	c := &cluster{layout: l}
	if !exists(interfacePath(l.Bridge)) || c.ownsBridge() {
		return nil
	}
	alias, _ := os.ReadFile(filepath.Join(interfacePath(l.Bridge), "ifalias"))
	owner := strings.TrimSpace(string(alias))
	if owner == "" {
		owner = "not by a cluster of this kind"
	}
	return fmt.Errorf("the interface %s exists already (%s)", l.Bridge, owner)
}

// subnetTaken returns an error that names another interface whose subnet overlaps
// the given one.
func subnetTaken(subnet, except string) error {
	want := netip.MustParsePrefix(subnet)
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil || i.Name == except {
			continue
		}
		for _, address := range addresses {
			if has, err := netip.ParsePrefix(address.String()); err == nil && has.Overlaps(want) {
				return fmt.Errorf("the subnet %s overlaps %s of interface %s", subnet, has, i.Name)
			}
		}
	}
	return nil
}

// portFree returns nil if an address is free, and otherwise says who listens there.
// It reads the kernel's tables, because the address may not exist yet.
func portFree(address string) error {
	want, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeners, err := readListeners(table)
		if err != nil {
			continue // there is no IPv6
		}
		for _, l := range listeners {
			ip := l.address.Addr()
			if l.address.Port() == want.Port() && (ip == want.Addr() || ip.IsUnspecified()) {
				return fmt.Errorf("%s is taken by %s", address, holder(l.inode))
			}
		}
	}
	return nil
}

// listener is a listening socket.
type listener struct {
	address netip.AddrPort
	inode   string
}

// readListeners reads one of the kernel's tables of TCP sockets.
func readListeners(table string) ([]listener, error) {
	file, err := os.Open(table)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var listeners []listener
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if l, ok := parseListener(lines.Text()); ok {
			listeners = append(listeners, l)
		}
	}
	return listeners, nil
}

// parseListener parses a line of /proc/net/tcp or tcp6 if its socket is listening
// (state 0A). Addresses are hexadecimal, in words of the host's byte order.
func parseListener(line string) (listener, bool) {
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != "0A" {
		return listener{}, false
	}
	host, portHex, _ := strings.Cut(fields[1], ":")
	raw, errHost := hex.DecodeString(host)
	port, errPort := hex.DecodeString(portHex)
	if errHost != nil || errPort != nil || len(raw)%4 != 0 || len(port) != 2 {
		return listener{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return listener{netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(port)), fields[9]}, ok
}

// holder names the process that has a socket open.
func holder(inode string) string {
	for _, pid := range allPIDs() {
		descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, descriptor := range descriptors {
			if target, err := os.Readlink(descriptor); err == nil && target == "socket:["+inode+"]" {
				return fmt.Sprintf("process %d (%s)", pid, strings.Join(commandLine(pid), " "))
			}
		}
	}
	return "a process that cannot be seen"
}
