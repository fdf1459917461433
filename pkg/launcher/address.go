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

// The connection by a pod's own address.

// connectToAddress connects to the pod's present address.
func (o *openPod) connectToAddress(ctx context.Context) (net.Conn, error) {
	ip, err := o.address(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	conn, err := o.dialer(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(agentPort)))
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the address of pod %s/%s: %w", o.namespace, o.pod.Name, err)
	}
	return conn, nil
}

// podAddress is what is known about a pod's address and the agent behind it.
type podAddress struct {
	mu          sync.Mutex
	ip          string // the latest one used
	certificate []byte // the agent's, as last seen through the API server
	unvouched   bool   // whether the latest answer came with another certificate
}

// address returns the pod's IP as the watch or the API server has it now. If both
// are away, it returns the last known IP. The handshake and vouch find out whether
// the pod still has it.
func (o *openPod) address(ctx context.Context) (string, error) {
	now := o.state.latest()
	if now == nil {
		before := o.addr.used("")
		soon, cancel := ctx, func() {}
		if before != "" {
			soon, cancel = context.WithTimeout(ctx, queryTry) // the address is probably still its
		}
		var err error
		now, err = o.get(soon, o.pod.Name)
		cancel()
		switch {
		case err == nil:
			err = o.lost(ctx, now)
		case before != "" && !isAnswer(err) && ctx.Err() == nil:
			return before, nil
		}
		if err != nil {
			return "", err
		}
	}
	if now.Status.PodIP == "" {
		return "", fmt.Errorf("pod %s/%s has no address", o.namespace, o.pod.Name)
	}
	return o.addr.used(now.Status.PodIP), nil
}

// used notes an IP, unless it is empty, and returns the latest one noted.
func (a *podAddress) used(ip string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ip = cmp.Or(ip, a.ip)
	return a.ip
}

// vouch returns an error unless a certificate shown at the pod's address is the
// agent's: a program that has taken over the address can name the pod, too. Through
// the API server only the pod can be reached, so the certificate shown there is the
// agent's until the agent restarts.
func (o *openPod) vouch(ctx context.Context, certificate []byte) error {
	if o.recognize(certificate) {
		return nil
	}
	now, err := o.shown(ctx)
	if err != nil {
		return fmt.Errorf("cannot learn the key of the agent in pod %s/%s: %w", o.namespace, o.pod.Name, err)
	}
	o.addr.learn(now)
	if !o.recognize(certificate) {
		return fmt.Errorf("%w: the address of pod %s/%s answers with another key than its agent's", podapi.ErrWrongPod, o.namespace, o.pod.Name)
	}
	return nil
}

// recognize reports whether a certificate is known to be the agent's. A connection
// with it is as trustworthy as one through the API server.
func (o *openPod) recognize(certificate []byte) bool {
	known := o.addr.knows(certificate)
	if known {
		o.access.grant()
	}
	return known
}

// learn notes the certificate that the agent has shown through the API server.
func (a *podAddress) learn(certificate []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.certificate = certificate
}

// knows reports whether the certificate is the agent's last known one, and notes
// the result.
func (a *podAddress) knows(certificate []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unvouched = !bytes.Equal(certificate, a.certificate)
	return !a.unvouched
}

// isUnvouched reports whether the latest answer at the pod's address was not known
// to be the agent's.
func (a *podAddress) isUnvouched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unvouched
}

// shown returns the certificate that the pod's agent shows through the API server.
func (o *openPod) shown(ctx context.Context) ([]byte, error) {
	config, err := o.callerOf(o.pod).ClientTLS(string(o.pod.UID))
	if err != nil {
		return nil, err
	}
	conn, err := o.connect(ctx, wayTo("", runtimeClass(o.pod)))
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

// The agent's environment for its listener on the pod's address. Kubernetes expands
// the second variable in the first, which must come after it.
const (
	listenVariable = "PODAGENT_LISTEN"
	podIPVariable  = "PODAGENT_POD_IP"
)

// listenOnAddress makes the pod's agent listen on the pod's address, too. IPv6
// addresses need the brackets; others tolerate them.
func listenOnAddress(pod *corev1.Pod) {
	c := agentContainer(pod)
	i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == listenVariable })
	c.Env[i].Value += fmt.Sprintf(",tcp:[$(%s)]:%d", podIPVariable, agentPort)
	c.Env = slices.Insert(c.Env, i, corev1.EnvVar{Name: podIPVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
	}})
}

// listensOnAddress reports whether the pod's agent listens on the pod's address.
func listensOnAddress(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == containerName && slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == podIPVariable })
	})
}

// checkListener returns an error if the agent must be reached by the pod's address
// and does not listen there.
func (c *cluster) checkListener(pod *corev1.Pod) error {
	if c.connectionTo(pod) != ByAddress || listensOnAddress(pod) {
		return nil
	}
	return c.podError(pod, ErrNoListener, "", fmt.Sprintf("reach it by %s, or delete it and make another", ByPortForward))
}
