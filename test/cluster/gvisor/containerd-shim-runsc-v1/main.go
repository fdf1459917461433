// Command containerd-shim-runsc-v1 is gVisor's shim for containerd, except that its
// start also works on test machines: with the containerd of Debian 12 (1.6), which
// expects an address where newer ones also accept an object, and for a container's
// root, who may not lower the shim's oom_score_adj.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
	gvisor "gvisor.dev/gvisor/pkg/shim/v1"
	_ "gvisor.dev/gvisor/pkg/shim/v1/plugin" // the service that shim.Run serves
)

func main() {
	shim.Run(context.Background(), manager{gvisor.NewShimManager("io.containerd.runsc.v1")})
}

// manager is gVisor's, with another Start.
type manager struct{ shim.Manager }

// Start starts the shim of a container and prints its address, in the form that
// every containerd accepts. It does not return, because its caller would print more.
func (m manager) Start(ctx context.Context, id string, opts shim.StartOpts) (shim.BootstrapParams, error) {
	address, err := shim.SocketAddress(ctx, opts.Address, id, opts.Debug)
	if err == nil {
		err = serve(ctx, id, address, opts)
	}
	if err == nil {
		_, err = fmt.Print(address)
	}
	if err != nil {
		return shim.BootstrapParams{}, fmt.Errorf("cannot start the shim of %s: %w", id, err)
	}
	os.Exit(0)
	panic("unreachable")
}

// serve runs this program again, in the background, as the server at the address.
// containerd and gVisor's shim expect the files address and shim.pid in the bundle,
// which is the working directory.
func serve(ctx context.Context, id, address string, opts shim.StartOpts) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	listener, err := shim.NewSocket(address) // not closed, which would remove its file
	if err != nil {
		return err
	}
	socket, err := listener.File()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-namespace", namespace, "-address", opts.Address, "-id", id)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{socket} // a shim serves at its descriptor 3
	if err := os.WriteFile("address", []byte(address), 0o644); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return shim.WritePidFile("shim.pid", cmd.Process.Pid)
}
