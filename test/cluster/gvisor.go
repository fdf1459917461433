package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// gVisor is a module of its own (see its go.mod): runsc, a tool, and the shim.
const gVisor = "gvisor"

// shim is gVisor's program between containerd and runsc. containerd derives its name
// from the runtime's type, io.containerd.runsc.v1, and looks for it in its PATH.
const shim = "./containerd-shim-runsc-v1"

// runscConfig makes runsc keep its state with the cluster's. The shim reads it.
const runscConfig = `binary_name = %q
root = %q
`

// runtimeClass is the class of pods under gVisor.
const runtimeClass = `apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata:
  name: gvisor
handler: runsc
`

// writeGVisorConfig writes what containerd and the API server must know about gVisor.
func (c *cluster) writeGVisorConfig() error {
	config := fmt.Sprintf(runscConfig, filepath.Join(c.Bin, "runsc"), filepath.Join(c.run(), "runsc"))
	return errors.Join(
		writeFile(c.path("etc", "runsc.toml"), []byte(config)),
		writeFile(c.path("etc", "gvisor.yaml"), []byte(runtimeClass)),
	)
}

// makeRuntimeClass creates the class of pods under gVisor.
func (c *cluster) makeRuntimeClass(ctx context.Context) error {
	_, err := command(ctx, commandTimeout, filepath.Join(c.Bin, "kubectl"), "--kubeconfig="+c.Kubeconfig, "apply", "-f", c.path("etc", "gvisor.yaml"))
	return err
}
