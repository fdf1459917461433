package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// needs are the programs that the system must have, with their Debian packages.
var needs = []struct{ program, pkg string }{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"ip", "iproute2"},
	{"mount", "mount"},
	{"umount", "mount"},
}

// cniNeeds are the plugins. They are in the first of the directories that has them
// all.
var (
	cniNeeds = []string{"bridge", "host-local", "loopback"}
	cniDirs  = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
)

// asRoot fails for an ordinary user.
func asRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("cannot run a cluster as an ordinary user: run it as root")
	}
	// An ordinary PATH may omit root's programs.
	return os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
}

// need installs missing programs, or says which are missing.
func (c *cluster) need(ctx context.Context) error {
	packages := missing()
	if len(packages) == 0 {
		return nil
	}
	if !exists("/etc/debian_version") || asRoot() != nil {
		return fmt.Errorf("cannot run a cluster: install what Debian has as %s", strings.Join(packages, ", "))
	}
	unlock, err := lockFile(ctx, machineLock) // the up of another cluster may be installing, too
	if err != nil {
		return err
	}
	defer unlock()
	if packages = missing(); len(packages) == 0 {
		return nil
	}
	c.say("installing %s", strings.Join(packages, ", "))
	if err := os.Setenv("DEBIAN_FRONTEND", "noninteractive"); err != nil {
		return err
	}
	_, errUpdate := command(ctx, installTimeout, "apt-get", "update", "-qq")
	install := append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)
	if _, err := command(ctx, installTimeout, "apt-get", install...); err != nil {
		return fmt.Errorf("cannot install what is missing: %w", errors.Join(err, errUpdate))
	}
	if packages := missing(); len(packages) > 0 {
		return fmt.Errorf("cannot run a cluster: programs of %s are missing, though they are installed", strings.Join(packages, ", "))
	}
	return nil
}

// missing lists the packages of missing programs.
func missing() []string {
	var packages []string
	for _, need := range needs {
		if _, err := exec.LookPath(need.program); err != nil {
			packages = append(packages, need.pkg)
		}
	}
	if _, err := cniPlugins(); err != nil {
		packages = append(packages, "containernetworking-plugins")
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// cniPlugins returns the directory of the CNI plugins.
func cniPlugins() (string, error) {
	for _, dir := range cniDirs {
		if !slices.ContainsFunc(cniNeeds, func(name string) bool { return !exists(filepath.Join(dir, name)) }) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("cannot find the CNI plugins %s in %s", strings.Join(cniNeeds, ", "), strings.Join(cniDirs, ", "))
}
