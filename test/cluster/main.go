// Command cluster runs a real one-node Kubernetes on this machine, for tests
// to run on: etcd, the API server, the controller manager, the scheduler and
// the kubelet, built from their Go modules (this module requires them as
// tools), a program of this module that enforces network policies, gVisor, and
// containerd, runc and the CNI plugins of the distribution. It must run as
// root. As root on Debian it installs the packages that it lacks.
//
//	go run . up      [--dir DIR] [--bin BIN]
//	go run . load    [--dir DIR] IMAGE.tar...
//	go run . restart [--dir DIR] [--kill] apiserver|controller-manager|scheduler|policies|kubelet|containerd|etcd
//	go run . status  [--dir DIR]
//	go run . down    [--dir DIR]
//
// up returns when the node is ready, and at once if everything works already. It
// reports every 15 s how far it is with the programs, which it builds once, in 5 to
// 10 minutes on two cores. It starts what is missing, so it also repairs a cluster
// of which some or all processes were killed: the objects in etcd are still there,
// and the kubelet brings the pods back. load imports images, as docker-archive or
// oci-archive files, for pods with imagePullPolicy IfNotPresent or Never. Importing
// an image again takes no time. No registry is reachable: a pull of any other image
// fails at once. restart stops one program (SIGTERM, or SIGKILL with --kill) and
// starts it again. down stops what up started, including the pods' processes, and
// removes every mount, interface, control group and packet filter rule of the
// cluster.
//
// # What is where
//
// DIR (default .cluster) holds it all:
//
//	kubeconfig    of an administrator (system:masters)
//	cluster.json  what tests need to know: addresses, names, paths (see facts)
//	pids.json     the process of each program, by pid and start time
//	bin/          the programs, with kubectl, and CNI plugins' and containerd's from the system
//	logs/         the output of each program
//	images/       the pause image, which is also there for tests: podagent.test/pause:1
//
// --bin, or PODAGENT_CLUSTER_BIN, names another place for the programs, which
// clusters can share. down keeps bin, images, logs, cluster.json, and the images in
// containerd. Sockets, whose paths must be short, are in /run/podagent-cluster.
//
// # gVisor
//
// Pods of the RuntimeClass gvisor run under gVisor, built from its module (see
// gvisor/go.mod), with its own network and the platform systrap, which needs no
// virtualization. The class is the tests' to use, and not to change.
//
// # Several clusters on one machine
//
// Each DIR has a slot: a number that decides its bridge, subnet, ports, control
// group and node name. The first up takes the first free slot and keeps it. If part
// of it is in use later, up says which part, and by whom.
//
// # The network
//
// Everything listens on loopback or on the cluster's own bridge: the API server and
// the kubelet on the bridge's address, which pods reach, too, and the others on
// loopback. There is no kube-proxy and no DNS (lookups fail at once). The only
// service that works in pods is the API server's own (KUBERNETES_SERVICE_HOST).
// Pods reach each other and this machine, and nothing else. Host ports are not
// mapped, because they would listen on every interface.
//
// Network policies are enforced (see policies). This machine is the node of all pods,
// so it may always connect to them. For pods, the address 169.254.169.254, where
// clouds serve metadata, is this machine: a test can listen there with
// IP_TRANSPARENT, bound to the bridge.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: cluster up      [--dir DIR] [--bin BIN]
       cluster load    [--dir DIR] IMAGE.tar...
       cluster restart [--dir DIR] [--kill] PROGRAM
       cluster status  [--dir DIR]
       cluster down    [--dir DIR]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage")

// run runs one verb.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", ".cluster", "the cluster's directory")
	bin := flags.String("bin", os.Getenv("PODAGENT_CLUSTER_BIN"), "where the programs are built (default as before, else DIR/bin)")
	kill := flags.Bool("kill", false, "restart: end it by SIGKILL at once")
	if err := flags.Parse(args[1:]); err != nil {
		return errUsage
	}
	c, err := open(*dir, *bin, os.Stdout)
	if err != nil {
		return err
	}
	switch args[0] {
	case "up":
		return c.up(ctx)
	case "down":
		return c.down(ctx)
	case "load":
		return c.load(ctx, flags.Args())
	case "status":
		return c.status(ctx)
	case "restart":
		if flags.NArg() != 1 {
			return errUsage
		}
		return c.restart(ctx, flags.Arg(0), *kill)
	}
	return errUsage
}
