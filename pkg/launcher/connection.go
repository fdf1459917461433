package launcher

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Connection is a way to the agents of pods, in TLS from end to end. Through the API
// server only the pod is reached, whose UID the agent names. An address reaches whoever
// holds it: the agent must show the key that it shows through the API server.
type Connection string

const (
	// ByPortForward goes through the API server and the node to the pod's loopback.
	ByPortForward Connection = "port-forward"
	// ByExec runs "podagent connect" in the pod's container, with the permission of deploy/exec-rbac.yaml.
	// It is slower, and for pods that port-forwards do not reach, as under gVisor and Kata.
	ByExec Connection = "exec"
	// ByAddress goes to the pod's own address, from within the cluster, where NetworkPolicies let it through
	// (deploy/networkpolicy-address.yaml). It reaches pods that a launcher of this connection made ([ErrNoListener]).
	// The agent's key is learned by the default way, when a sandbox is opened and when its agent has restarted.
	ByAddress Connection = "address"
)

// Connections returns the ways.
func Connections() []Connection { return []Connection{ByPortForward, ByExec, ByAddress} }

// checkConnection returns an error unless the way is empty or one of Connections.
func checkConnection(way Connection) error {
	if way == "" || slices.Contains(Connections(), way) {
		return nil
	}
	return &SpecError{"Connection", fmt.Sprintf("is %q: it is %s, %s or %s", way, ByPortForward, ByExec, ByAddress)}
}

// unforwardable are prefixes of RuntimeClass names whose pods port-forwards do not
// reach: such pods have a network of their own inside.
var unforwardable = []string{"gvisor", "runsc", "kata"}

// connectionTo returns the way to the agent of the pod.
func (c *cluster) connectionTo(pod *corev1.Pod) Connection {
	return wayTo(c.connection, runtimeClass(pod))
}

func runtimeClass(pod *corev1.Pod) string {
	if pod.Spec.RuntimeClassName == nil {
		return ""
	}
	return *pod.Spec.RuntimeClassName
}

// wayTo returns the way to agents of a RuntimeClass.
func wayTo(asked Connection, class string) Connection {
	switch {
	case asked != "":
		return asked
	case slices.ContainsFunc(unforwardable, func(name string) bool { return strings.HasPrefix(class, name) }):
		return ByExec
	}
	return ByPortForward
}

// connect opens a connection to the pod's agent.
func (o *openPod) connect(ctx context.Context, way Connection) (conn net.Conn, err error) {
	switch way {
	case ByAddress:
		return o.connectToAddress(ctx)
	case ByExec:
		conn, err = o.exec.Dial(ctx, o.namespace, o.pod.Name, containerName, programOf(o.pod), "connect")
	default:
		conn, err = o.forward.Dial(ctx, o.namespace, o.pod.Name, agentPort)
	}
	if err == nil {
		o.access.grant()
	}
	return conn, err
}
