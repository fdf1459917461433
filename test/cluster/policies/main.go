// Command policies enforces the network policies of a cluster whose pods are on one
// bridge of this machine, by a table of nftables.
//
//	policies --kubeconfig FILE --bridge NAME --table NAME --listen ADDRESS
//
// It watches policies, pods and namespaces, and puts each change in force within a
// moment. A pod is isolated once the API server shows its address. What policies
// refuse is answered at once: a connection is reset, and other packets get an ICMP
// error. Connections that exist are left alone. The machine itself may always
// connect to pods. A pod's connections to the machine are filtered like all others.
//
// The table and its rules stay when the program ends, until the program has started
// again. The program answers GET /healthz at the address with 200 if the rules are in
// force.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	bridge := flag.String("bridge", "", "the interface of the pods' bridge")
	table := flag.String("table", "", "the table to keep")
	listen := flag.String("listen", "", "the address at which to answer for health")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, filter{table: *table, bridge: *bridge}, *listen); err != nil {
		slog.Error("ending", "error", err)
		os.Exit(1)
	}
}

// run enforces policies until the context ends.
func run(ctx context.Context, kubeconfig string, f filter, listen string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	e, err := newEnforcer(f, config)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(e.serveHealth), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	go e.run(ctx)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveHealth answers with 200, or 503 and the reason.
func (e *enforcer) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if err := e.check(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}
