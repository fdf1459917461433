package main

import (
	"context"
	"fmt"
	"path/filepath"
)

const (
	// serviceSubnet is the range of the services' addresses. All clusters on a
	// machine can use the same one, because nothing routes them.
	serviceSubnet = "10.96.0.0/16"
	// serviceAddress is the first of them, the API server's.
	serviceAddress = "10.96.0.1"
)

// loopback returns the address of a port of this cluster on loopback.
func (c *cluster) loopback(port string) string { return fmt.Sprintf("127.0.0.1:%d", c.Ports[port]) }

// bridged returns the address of a port of this cluster on the bridge.
func (c *cluster) bridged(port string) string {
	return fmt.Sprintf("%s:%d", c.BridgeAddress, c.Ports[port])
}

// etcd keeps the objects. It does not sync them to disk, because they need not
// survive a crash of the machine.
func (c *cluster) etcd() program {
	client, peer := "https://"+c.loopback("etcd"), "https://"+c.loopback("etcd-peer")
	return program{
		name: "etcd", path: c.Bin + "/etcd", listens: []string{c.loopback("etcd"), c.loopback("etcd-peer")},
		args: []string{
			"--name=" + c.Node, "--data-dir=" + c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=" + c.Node + "=" + peer,
			"--client-cert-auth", "--trusted-ca-file=" + c.pki("etcd-ca.crt"),
			"--cert-file=" + c.pki("etcd.crt"), "--key-file=" + c.pki("etcd.key"),
			"--peer-client-cert-auth", "--peer-trusted-ca-file=" + c.pki("etcd-ca.crt"),
			"--peer-cert-file=" + c.pki("etcd.crt"), "--peer-key-file=" + c.pki("etcd.key"),
		},
		healthy: func(ctx context.Context) error { return c.get(ctx, client+"/health", "etcd-ca", "etcd", nil) },
	}
}

// apiServer listens on the bridge, so that this machine and pods use the same
// address.
func (c *cluster) apiServer() program {
	return program{
		name: "apiserver", path: c.Bin + "/kube-apiserver", listens: []string{c.bridged("apiserver")},
		args: []string{
			"--bind-address=" + c.BridgeAddress, fmt.Sprintf("--secure-port=%d", c.Ports["apiserver"]),
			"--advertise-address=" + c.BridgeAddress, "--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=" + serviceSubnet,
			"--etcd-servers=https://" + c.loopback("etcd"), "--etcd-cafile=" + c.pki("etcd-ca.crt"),
			"--etcd-certfile=" + c.pki("etcd.crt"), "--etcd-keyfile=" + c.pki("etcd.key"),
			"--client-ca-file=" + c.pki("ca.crt"), "--tls-cert-file=" + c.pki("apiserver.crt"),
			"--tls-private-key-file=" + c.pki("apiserver.key"),
			"--kubelet-certificate-authority=" + c.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
			"--kubelet-client-certificate=" + c.pki("admin.crt"), "--kubelet-client-key=" + c.pki("admin.key"),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + c.pki("service-account.pub"),
			"--service-account-signing-key-file=" + c.pki("service-account.key"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--allow-privileged", "--profiling=false",
		},
		healthy: func(ctx context.Context) error { return c.get(ctx, c.APIServer+"/readyz", "ca", "admin", nil) },
	}
}

// controllerManager runs the controllers: service accounts, garbage collection
// and the rest.
func (c *cluster) controllerManager() program {
	return program{
		name: "controller-manager", path: c.Bin + "/kube-controller-manager",
		listens: []string{c.loopback("controller-manager")},
		args: append(c.elected("controller-manager"),
			"--use-service-account-credentials", "--root-ca-file="+c.pki("ca.crt"),
			"--flex-volume-plugin-dir="+filepath.Join(c.KubeletRoot, "volume-plugins"),
			"--service-account-private-key-file="+c.pki("service-account.key"),
		),
		healthy: c.serves("controller-manager"),
	}
}

// scheduler assigns pods to the node.
func (c *cluster) scheduler() program {
	return program{
		name: "scheduler", path: c.Bin + "/kube-scheduler", listens: []string{c.loopback("scheduler")},
		args:    c.elected("scheduler"),
		healthy: c.serves("scheduler"),
	}
}

// elected are the arguments of the programs that would elect a leader if there were
// several of them. Their request rate is not limited, which would delay the start
// of the controllers by four seconds.
func (c *cluster) elected(name string) []string {
	return []string{
		"--kubeconfig=" + c.pki(name+".kubeconfig"), "--leader-elect=false", "--profiling=false",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.Ports[name]),
		"--tls-cert-file=" + c.pki(name+".crt"), "--tls-private-key-file=" + c.pki(name+".key"),
	}
}

// policies enforces network policies on the bridge, in a table that is named like
// the pods' network.
func (c *cluster) policies() program {
	return program{
		name: "policies", path: c.Bin + "/policies", listens: []string{c.loopback("policies")},
		args: []string{
			"--kubeconfig=" + c.Kubeconfig, "--bridge=" + c.Bridge, "--table=" + c.cniNetwork(),
			"--listen=" + c.loopback("policies"),
		},
		healthy: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			return plainHealth(ctx, "http://"+c.loopback("policies")+"/healthz")
		},
	}
}

// serves asks a program on loopback for its health.
func (c *cluster) serves(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.get(ctx, "https://"+c.loopback(name)+"/healthz", "ca", "admin", nil)
	}
}
