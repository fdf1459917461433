package launcher

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/podapi"
)

// The way by a pod's own address.

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

// podAddress is what is known of a pod's address, and of what answers there.
type podAddress struct {
	mu          sync.Mutex
	ip          string // the latest that was used
	certificate []byte // the agent's, as it was last shown by the API server
	unvouched   bool   // whether the latest that answered showed another
}

// address returns the pod's IP as the watch or the API server has it now, or, while
// both are away, as it was. The handshake and vouch find out whether it is still
// the pod's.
func (t *target) address(ctx context.Context) (string, error) {
	now := t.state.latest()
	if now == nil {
		var err error
		if now, err = t.get(ctx, t.pod.Name); err == nil {
			err = t.lost(ctx, now)
		} else if before := t.addr.used(""); before != "" && !isAnswer(err) {
			return before, nil
		}
		if err != nil {
			return "", err
		}
	}
	if now.Status.PodIP == "" {
		return "", fmt.Errorf("pod %s/%s has no address", t.namespace, t.pod.Name)
	}
	return t.addr.used(now.Status.PodIP), nil
}

// used notes an IP, unless it is empty, and returns the latest that was noted.
func (a *podAddress) used(ip string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ip = cmp.Or(ip, a.ip)
	return a.ip
}

// vouch returns an error unless a certificate, which was shown at the pod's
// address, is the agent's: whoever has got hold of the address can name the pod,
// too. Through the API server only the pod can be reached, so the certificate
// shown there is the agent's, until it starts again.
func (t *target) vouch(ctx context.Context, certificate []byte) error {
	if t.recognize(certificate) {
		return nil
	}
	now, err := t.shown(ctx)
	if err != nil {
		return fmt.Errorf("cannot learn the key of the agent in pod %s/%s: %w", t.namespace, t.pod.Name, err)
	}
	t.addr.learn(now)
	if !t.recognize(certificate) {
		return fmt.Errorf("%w: what is at the address of pod %s/%s has another key than its agent", podapi.ErrWrongPod, t.namespace, t.pod.Name)
	}
	return nil
}

// recognize reports whether a certificate is known to be the agent's. With it a
// connection is as good as one that the API server has let through.
func (t *target) recognize(certificate []byte) bool {
	known := t.addr.knows(certificate)
	if known {
		t.access.grant()
	}
	return known
}

// learn notes the certificate that the agent has shown by the API server.
func (a *podAddress) learn(certificate []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.certificate = certificate
}

// knows reports whether the certificate of what answers is the agent's, as far as
// that is known, and notes it.
func (a *podAddress) knows(certificate []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unvouched = !bytes.Equal(certificate, a.certificate)
	return !a.unvouched
}

// isUnvouched reports whether something has answered at the pod's address that was
// not found to be its agent.
func (a *podAddress) isUnvouched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unvouched
}

// shown returns the certificate that the pod's agent shows by the API server.
func (t *target) shown(ctx context.Context) ([]byte, error) {
	config, err := t.identity.ClientTLS(string(t.pod.UID))
	if err != nil {
		return nil, err
	}
	conn, err := t.connect(ctx, wayTo("", runtimeClass(t.pod)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := tls.Client(conn, config)
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0].Raw, nil
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
