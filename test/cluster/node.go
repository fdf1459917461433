package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// pauseImage holds each pod's sandbox. Tests may use it, too.
const pauseImage = "podagent.test/pause:1"

// containerd runs the containers.
func (c *cluster) containerd() program {
	path, err := exec.LookPath("containerd")
	if err != nil {
		path = "containerd" // starting it will report the problem
	}
	return program{
		name: "containerd", path: path, args: []string{"--config", c.path("etc", "containerd.toml")},
		healthy: func(ctx context.Context) error {
			out, err := c.ctr(ctx, commandTimeout, "plugins", "ls", "id==cri")
			if err == nil && !strings.Contains(out, " ok") {
				err = fmt.Errorf("its CRI plugin has not started: %s", strings.TrimSpace(out))
			}
			return err
		},
	}
}

// ctr runs containerd's client.
func (c *cluster) ctr(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	return command(ctx, limit, "ctr", append([]string{"-a", c.ContainerdSocket, "-n", "k8s.io"}, args...)...)
}

// containerdConfig is containerd's configuration, in the format for 1.6 to 2.x. All
// images come from load: every registry is a loopback port on which nothing
// listens, so that a pull fails at once whatever the machine's network is.
var containerdConfig = template.Must(template.New("containerd.toml").Parse(`version = 2
root = {{printf "%q" .Root}}
state = {{printf "%q" .State}}
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = {{printf "%q" .Socket}}

[plugins."io.containerd.internal.v1.opt"]
  path = {{printf "%q" .Opt}}

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {{printf "%q" .Pause}}
  restrict_oom_score_adj = {{.Restricted}}
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = {{printf "%q" .Snapshotter}}
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
  Root = {{printf "%q" .Runc}}

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc]
  runtime_type = "io.containerd.runsc.v1"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runsc.options]
  TypeUrl = "io.containerd.runsc.v1.options"
  ConfigPath = {{printf "%q" .Runsc}}

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = {{printf "%q" .CNIBin}}
  conf_dir = {{printf "%q" .CNIConf}}

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = {{printf "%q" .Registries}}
`))

// noRegistry is where containerd looks for every registry.
const noRegistry = `server = "http://127.0.0.1:1"

[host."http://127.0.0.1:1"]
  capabilities = ["pull", "resolve"]
`

// writeContainerdConfig writes containerd's configuration.
func (c *cluster) writeContainerdConfig() error {
	plugins, err := cniPlugins()
	if err != nil {
		return err
	}
	var config bytes.Buffer
	if err := containerdConfig.Execute(&config, map[string]any{
		"Root": c.path("containerd"), "State": filepath.Join(c.run(), "containerd"), "Socket": c.ContainerdSocket,
		"Opt": c.path("containerd", "opt"), "Pause": pauseImage, "Restricted": !mayRaisePriority(),
		"Snapshotter": c.snapshotter(), "Runc": filepath.Join(c.run(), "runc"), "Runsc": c.path("etc", "runsc.toml"),
		"CNIBin": plugins, "CNIConf": c.path("etc", "cni"), "Registries": c.path("etc", "registries"),
	}); err != nil {
		return err
	}
	if err := writeFile(c.path("etc", "registries", "_default", "hosts.toml"), []byte(noRegistry)); err != nil {
		return err
	}
	return writeFile(c.path("etc", "containerd.toml"), config.Bytes())
}

// snapshotter returns overlayfs. If the directory is itself on an overlay, as in a
// container, it returns native, which copies.
func (c *cluster) snapshotter() string {
	const overlayMagic = 0x794c7630
	var stat syscall.Statfs_t
	if syscall.Statfs(c.dir, &stat) == nil && stat.Type == overlayMagic {
		return "native"
	}
	return "overlayfs"
}

// kubelet runs the pods. It listens on the bridge, which is the node's address.
func (c *cluster) kubelet() program {
	return program{
		name: "kubelet", path: c.Bin + "/kubelet",
		listens: []string{c.bridged("kubelet"), c.loopback("kubelet-health")},
		args: []string{
			"--config=" + c.path("etc", "kubelet.json"), "--kubeconfig=" + c.pki("kubelet.kubeconfig"),
			"--root-dir=" + c.KubeletRoot, "--cert-dir=" + c.pki("kubelet"),
			"--hostname-override=" + c.Node, "--node-ip=" + c.BridgeAddress,
		},
		healthy: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			return plainHealth(ctx, "http://"+c.loopback("kubelet-health")+"/healthz")
		},
	}
}

// plainHealth asks for health without TLS, as the kubelet serves it.
func plainHealth(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// writeKubeletConfig writes the kubelet's configuration. It never collects images
// and hardly ever evicts pods, because the disk of a test machine may be nearly
// full. The pods' name server is the bridge, where nothing answers: lookups fail at
// once, and no pod's events begin with a warning about missing DNS.
func (c *cluster) writeKubeletConfig() error {
	type object map[string]any
	return writeJSON(c.path("etc", "kubelet.json"), object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": c.BridgeAddress, "port": c.Ports["kubelet"], "readOnlyPort": 0,
		"healthzBindAddress": "127.0.0.1", "healthzPort": c.Ports["kubelet-health"],
		"tlsCertFile": c.pki("kubelet.crt"), "tlsPrivateKeyFile": c.pki("kubelet.key"),
		"authentication": object{
			"x509": object{"clientCAFile": c.pki("ca.crt")}, "webhook": object{"enabled": true},
			"anonymous": object{"enabled": false},
		},
		"authorization":            object{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + c.ContainerdSocket,
		"cgroupDriver":             "cgroupfs", "cgroupRoot": c.CgroupRoot, "failCgroupV1": false,
		"featureGates":           object{"KubeletInUserNamespace": !mayRaisePriority()},
		"makeIPTablesUtilChains": false,
		"resolvConf":             "/dev/null",
		"clusterDNS":             []string{c.BridgeAddress}, "clusterDomain": "cluster.local",
		"failSwapOn":                  false,
		"maxPods":                     maxPods,
		"podPidsLimit":                podPidsLimit,
		"volumeStatsAggPeriod":        volumeStatsPeriod.String(),
		"podLogsDir":                  c.path("pods"),
		"volumePluginDir":             filepath.Join(c.KubeletRoot, "volume-plugins"),
		"serializeImagePulls":         false,
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"evictionHard": object{
			"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%",
			"imagefs.available": "1%", "imagefs.inodesFree": "1%",
		},
	})
}

// mayRaisePriority reports whether a process may lower its oom_score_adj
// (CAP_SYS_RESOURCE, bit 24). A container's root often may not; the kubelet and
// containerd then need to be told.
func mayRaisePriority() bool {
	const capSysResource = 24
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		var mask uint64
		if n, _ := fmt.Sscanf(line, "CapEff: %x", &mask); n == 1 {
			return mask&(1<<capSysResource) != 0
		}
	}
	return false
}
