package launcher

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Connection is a way to the agents of pods. All carry the same bytes in TLS from
// end to end, and the agent answers no other key than the orchestrator's. That the
// agent is the pod's it shows by the pod's UID, which is no secret: by the API
// server only the pod is reached, and by its address who has that.
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
	// listen there, too; others it does not reach ([ErrNoListener]). The network
	// has to keep pods from each other's addresses, and a NetworkPolicy has to let
	// it through: see deploy/networkpolicy-address.yaml.
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
	var class string
	if pod.Spec.RuntimeClassName != nil {
		class = *pod.Spec.RuntimeClassName
	}
	return wayTo(c.connection, class)
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
func (t *target) connect(ctx context.Context) (net.Conn, error) {
	switch t.connectionTo(t.pod) {
	case ByExec:
		return t.exec.Dial(ctx, t.namespace, t.pod.Name, containerName, programOf(t.pod), "connect")
	case ByAddress:
		return t.connectToAddress(ctx)
	}
	return t.forward.Dial(ctx, t.namespace, t.pod.Name, agentPort)
}

// connectToAddress connects to where the pod is now.
func (t *target) connectToAddress(ctx context.Context) (net.Conn, error) {
	ip, err := t.address(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	conn, err := t.dialer(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(agentPort)))
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the address of pod %s/%s: %w", t.namespace, t.pod.Name, err)
	}
	return conn, nil
}

// address returns the pod's IP: as the watch or the API server has it now, or
// else, while that is away, as it was. That it is still the pod's is for the
// agent to prove.
func (t *target) address(ctx context.Context) (string, error) {
	t.mu.Lock()
	now, before := t.state, t.ip
	t.mu.Unlock()
	if now == nil {
		var err error
		if now, err = t.get(ctx, t.pod.Name); err == nil {
			err = t.lost(now)
		} else if before != "" && !isAnswer(err) {
			return before, nil
		}
		if err != nil {
			return "", err
		}
	}
	ip := now.Status.PodIP
	if ip == "" {
		return "", fmt.Errorf("pod %s/%s has no address", t.namespace, t.pod.Name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ip = ip
	return ip, nil
}

// The agent's environment for its listener on the pod's address. Kubernetes
// puts it into what comes after it.
const (
	listenVariable = "PODAGENT_LISTEN"
	podIPVariable  = "PODAGENT_POD_IP"
)

// listenOnAddress has the pod's agent listen on the pod's address, too.
// Brackets are for an address of IPv6, and do no harm around another.
func listenOnAddress(pod *corev1.Pod) {
	c := agentContainer(pod)
	i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == listenVariable })
	c.Env[i].Value += fmt.Sprintf(",tcp:[$(%s)]:%d", podIPVariable, agentPort)
	c.Env = slices.Insert(c.Env, i, corev1.EnvVar{Name: podIPVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
	}})
}

// listensOnAddress reports whether the pod was made so.
func listensOnAddress(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == containerName && slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == podIPVariable })
	})
}

// checkListener returns an error if the pod was not made for the way to it.
func (c *cluster) checkListener(pod *corev1.Pod) error {
	if c.connectionTo(pod) != ByAddress || listensOnAddress(pod) {
		return nil
	}
	return c.podError(pod, ErrNoListener, "", fmt.Sprintf("reach it by %s, or delete it and make another", ByPortForward))
}
