// Command agents is the kubelet and the agents of simulated pods. Benchmarks run it where
// KWOK runs the rest of a node: it serves the port-forwards to all pods of the node, and
// at the other end of each it answers as the agent of that pod.
//
// It prints the port on which it listens, on loopback. To each further line of its input it
// answers with the number of its connections, and it ends with its input.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// The kubelet's own bounds: of a port-forward without bytes, and of the time to open its
// streams.
const (
	idleTimeout   = 4 * time.Hour
	streamTimeout = 30 * time.Second
)

var (
	kubeconfig  = flag.String("kubeconfig", "", "path of a kubeconfig that may read the pods")
	certificate = flag.String("certificate", "", "path of the kubelet's certificate, for loopback")
	key         = flag.String("key", "", "path of its key")
)

func main() {
	flag.Parse()
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

func serve() error {
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // each port-forward reads its pod
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n := newNode(api)
	failed := make(chan error, 1)
	go func() { failed <- n.listen(listener) }()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(n.connections.Load())
		}
		failed <- nil
	}()
	return <-failed
}

// node serves the port-forwards to its pods.
type node struct {
	api         kubernetes.Interface
	agents      *agents
	connections atomic.Int64 // to agents
}

func newNode(api kubernetes.Interface) *node { return &node{api: api, agents: newAgents()} }

func (n *node) listen(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", n.forward)
	server := &http.Server{
		Handler: mux,
		// A connection of HTTP/2 cannot be upgraded.
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
	}
	return server.ServeTLS(listener, *certificate, *key)
}

func (n *node) forward(w http.ResponseWriter, r *http.Request) {
	to := &pod{node: n, namespace: r.PathValue("namespace")}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, to, r.PathValue("pod"), "", options, idleTimeout, streamTimeout, portforward.SupportedProtocols)
}

// pod is the port-forwarder of a request, which gives no namespace to its forwarder.
type pod struct {
	*node
	namespace string
}

// PortForward implements portforward.PortForwarder. Whatever the port is, the pod's agent is
// there.
func (p *pod) PortForward(ctx context.Context, name, _ string, _ int32, stream stream) error {
	p.connections.Add(1)
	defer p.connections.Add(-1)
	pod, err := p.api.CoreV1().Pods(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return p.agents.serve(ctx, pod, stream)
}
