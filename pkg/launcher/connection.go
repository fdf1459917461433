package launcher

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Connection is a way to the agents of pods. All carry the same bytes in TLS from
// end to end, and the agent answers no other key than the orchestrator's. By the API
// server only the pod is reached, whose UID the agent names; by an address, who has
// it, and the agent has to show the key that it was seen to have by the API server.
type Connection string

// The ways to the agents of pods.
const (
	// ByPortForward goes through the API server and the pod's node, to the
	// loopback of the pod.
	ByPortForward Connection = "port-forward"
	// ByExec runs "podagent connect" in the pod's container. It is for pods
	// that port-forwards do not reach, as under gVisor and Kata, and slower. It
	// needs the permission of deploy/exec-rbac.yaml.
	ByExec Connection = "exec"
	// ByAddress goes to the pod's own address, with no API server between: for
	// an orchestrator in the cluster. The agents of pods that are made by it
	// listen there, too; others it does not reach ([ErrNoListener]). When a sandbox
	// is opened, and when its agent has started again, the agent's key is learned by
	// ByPortForward, or under gVisor and Kata by ByExec, with the permission that
	// this needs. A NetworkPolicy has to let it through: see
	// deploy/networkpolicy-address.yaml.
	ByAddress Connection = "address"
)

// Connections are the ways that there are.
func Connections() []Connection { return []Connection{ByPortForward, ByExec, ByAddress} }

// checkConnection returns an error unless the way is one of those, or none.
func checkConnection(way Connection) error {
	if way == "" || slices.Contains(Connections(), way) {
		return nil
	}
	return &SpecError{"Connection", fmt.Sprintf("is %q: it is %s, %s or %s", way, ByPortForward, ByExec, ByAddress)}
}

// unforwardable begin the names by which RuntimeClasses are called whose pods
// port-forwards do not reach: they have a network of their own inside.
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
func (t *target) connect(ctx context.Context, way Connection) (conn net.Conn, err error) {
	switch way {
	case ByAddress:
		return t.connectToAddress(ctx)
	case ByExec:
		conn, err = t.exec.Dial(ctx, t.namespace, t.pod.Name, containerName, programOf(t.pod), "connect")
	default:
		conn, err = t.forward.Dial(ctx, t.namespace, t.pod.Name, agentPort)
	}
	if err == nil {
		t.access.grant()
	}
	return conn, err
}
