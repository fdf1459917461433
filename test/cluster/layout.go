package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// runBase holds the sockets and the runtime state of all clusters, each in a
// directory of its own, and their claims of slots. It is emptied by a boot.
const runBase = "/run/podagent-cluster"

// machineLock is held while what clusters share is changed.
const machineLock = runBase + "/lock"

// facts is what tests need to know of a cluster, as in DIR/cluster.json.
type facts struct {
	// ID tells clusters apart: a hash of DIR's path.
	ID string `json:"id"`
	// Slot decides all that two clusters on one machine must not share.
	Slot int `json:"slot"`
	// Node is the node's name.
	Node string `json:"node"`
	// APIServer is the API server's URL, from this machine and from pods.
	APIServer string `json:"apiServer"`
	// Bridge is the interface that pods are connected to, BridgeAddress its
	// address, and Subnet the pods' addresses, as a prefix.
	Bridge        string `json:"bridge"`
	BridgeAddress string `json:"bridgeAddress"`
	Subnet        string `json:"subnet"`
	// Ports are by program: etcd, etcd-peer, apiserver, controller-manager,
	// scheduler, kubelet, kubelet-health.
	Ports map[string]int `json:"ports"`
	// ContainerdSocket is containerd's, whose namespace is k8s.io.
	ContainerdSocket string `json:"containerdSocket"`
	// CgroupRoot is the pods' control group, below each hierarchy's root.
	CgroupRoot string `json:"cgroupRoot"`
	// KubeletRoot is where pods' volumes are.
	KubeletRoot string `json:"kubeletRoot"`
	// Bin, Logs, Kubeconfig and Pids are paths.
	Bin        string `json:"bin"`
	Logs       string `json:"logs"`
	Kubeconfig string `json:"kubeconfig"`
	Pids       string `json:"pids"`
}

// portNames orders the ports of a slot.
var portNames = []string{
	"etcd", "etcd-peer", "apiserver", "controller-manager", "scheduler", "kubelet", "kubelet-health",
}

// layout is where everything of a cluster is.
type layout struct {
	facts
	dir string
}

// newLayout is the layout of the cluster in a directory, which is absolute and
// without symlinks, so that its mounts are found by their paths.
func newLayout(dir, bin string, slot int) layout {
	sum := sha256.Sum256([]byte(dir))
	l := layout{dir: dir}
	l.ID = hex.EncodeToString(sum[:4])
	l.Slot = slot
	l.Node = fmt.Sprintf("podagent-%d", slot)
	l.Bridge = l.Node
	l.CgroupRoot = "/" + l.Node
	subnet := slotSubnet(slot)
	l.Subnet, l.BridgeAddress = subnet.String(), subnet.Addr().Next().String()
	l.Ports = map[string]int{}
	for i, name := range portNames {
		l.Ports[name] = firstPort + slot*portsPerSlot + i
	}
	l.APIServer = fmt.Sprintf("https://%s:%d", l.BridgeAddress, l.Ports["apiserver"])
	l.ContainerdSocket = filepath.Join(l.run(), "containerd.sock")
	l.KubeletRoot = kubeletRoot(dir, l.ID)
	l.Bin, l.Logs = bin, l.path("logs")
	l.Kubeconfig, l.Pids = l.path("kubeconfig"), l.path("pids.json")
	return l
}

// slotSubnet is a slot's 1024 addresses.
func slotSubnet(slot int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(4 * slot), 0}), 22)
}

// kubeletRoot is below the cluster's directory, unless its path is too long
// for the kubelet's own socket.
func kubeletRoot(dir, id string) string {
	root := filepath.Join(dir, "kubelet")
	if len(root)+len("/pod-resources/kubelet.sock") > maxSocketPath {
		root = filepath.Join("/var/lib/podagent-cluster", id, "kubelet")
	}
	return root
}

// path is a path in the cluster's directory.
func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// run is where the sockets and the runtime's state are.
func (l layout) run() string { return filepath.Join(runBase, l.ID) }

// cniNetwork is the name of the pods' network, unique on the machine.
func (l layout) cniNetwork() string { return "podagent-" + l.ID }

// stateDirs are the directories below which this cluster mounts, and which it
// removes.
func (l layout) stateDirs() []string { return []string{l.KubeletRoot, l.path("containerd"), l.run()} }

// readFacts reads the cluster.json of a directory, or fs.ErrNotExist.
func readFacts(dir string) (facts, error) {
	path := filepath.Join(dir, "cluster.json")
	var f facts
	data, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if f.Slot < 0 || f.Slot >= slots {
		return f, fmt.Errorf("cannot use slot %d of %s: there are %d", f.Slot, path, slots)
	}
	return f, nil
}

// exists reports whether there is something at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// writeJSON writes a value as a file, whole or not at all.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'))
}

// writeFile writes a file that only root reads, whole or not at all.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
