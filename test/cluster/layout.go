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

// runBase holds the sockets and the runtime state of all clusters, each in its own
// directory, and their claims of slots. A boot empties it.
const runBase = "/run/podagent-cluster"

// machineLock is held while anything that clusters share is changed.
const machineLock = runBase + "/lock"

// facts is what tests need to know about a cluster, as in DIR/cluster.json.
type facts struct {
	// ID tells clusters apart: a hash of DIR's path.
	ID string `json:"id"`
	// Slot decides everything that two clusters on one machine must not share.
	Slot int `json:"slot"`
	// Node is the node's name.
	Node string `json:"node"`
	// APIServer is the API server's URL, from this machine and from pods.
	APIServer string `json:"apiServer"`
	// Bridge is the interface to which pods are connected, BridgeAddress its
	// address, and Subnet the pods' addresses, as a prefix.
	Bridge        string `json:"bridge"`
	BridgeAddress string `json:"bridgeAddress"`
	Subnet        string `json:"subnet"`
	// Ports has a port for each of etcd, etcd-peer, apiserver, controller-manager,
	// scheduler, kubelet, kubelet-health and policies.
	Ports map[string]int `json:"ports"`
	// ContainerdSocket is containerd's, whose namespace is k8s.io.
	ContainerdSocket string `json:"containerdSocket"`
	// CgroupRoot is the pods' control group, below the root of each hierarchy.
	CgroupRoot string `json:"cgroupRoot"`
	// KubeletRoot is the directory of the pods' volumes.
	KubeletRoot string `json:"kubeletRoot"`
	// Bin, Logs, Kubeconfig and Pids are paths.
	Bin        string `json:"bin"`
	Logs       string `json:"logs"`
	Kubeconfig string `json:"kubeconfig"`
	Pids       string `json:"pids"`
}

// portNames orders the ports of a slot.
var portNames = []string{
	"etcd", "etcd-peer", "apiserver", "controller-manager", "scheduler", "kubelet", "kubelet-health", "policies",
}

// layout has the paths of a cluster's files.
type layout struct {
	facts
	dir string
}

// newLayout returns the layout of the cluster in a directory. The directory's path
// must be absolute and without symlinks, so that its mounts are found by their
// paths.
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

// slotSubnet returns a slot's 1024 addresses.
func slotSubnet(slot int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(4 * slot), 0}), 22)
}

// kubeletRoot is below the cluster's directory, unless that makes the path too long
// for the kubelet's own socket.
func kubeletRoot(dir, id string) string {
	root := filepath.Join(dir, "kubelet")
	if len(root)+len("/pod-resources/kubelet.sock") > maxSocketPath {
		root = filepath.Join("/var/lib/podagent-cluster", id, "kubelet")
	}
	return root
}

// path returns a path in the cluster's directory.
func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// run returns the directory of the sockets and the runtime state.
func (l layout) run() string { return filepath.Join(runBase, l.ID) }

// cniNetwork returns the name of the pods' network, unique on the machine.
func (l layout) cniNetwork() string { return "podagent-" + l.ID }

// stateDirs returns the directories in which this cluster mounts, and which it
// removes.
func (l layout) stateDirs() []string { return []string{l.KubeletRoot, l.path("containerd"), l.run()} }

// readFacts reads the cluster.json of a directory. The error may be fs.ErrNotExist.
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

// exists reports whether a path exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// writeJSON atomically writes a value to a file.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'))
}

// writeFile atomically writes a file that only root can read.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
