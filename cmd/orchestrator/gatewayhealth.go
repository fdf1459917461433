package main

import (
	"net"
	"net/http"

	"github.com/podagent/podagent/cmd/orchestrator/internal/serving"
	"github.com/podagent/podagent/pkg/gateway"
)

// healthServer serves what operators ask of a gateway. It has connections of its own, so that
// callers who take all of the gateway's do not make it look dead.
type healthServer struct {
	listener net.Listener
	server   *http.Server
}

// serveHealth begins to serve operators; nil if they are not to be served.
func (a *app) serveHealth(o *gatewayFlags, g *gateway.Gateway, seen *telemetry) (*healthServer, error) {
	if o.healthAt == nil {
		return nil, nil
	}
	listener, err := listenAt(o.http.flags.Lookup("health-listen"), o.healthAt)
	if err != nil {
		return nil, err
	}
	h := &healthServer{listener: listener, server: &http.Server{
		Handler: serving.KeepAll(healthMux(a, g, seen)), ReadTimeout: healthTime, WriteTimeout: healthTime, IdleTimeout: idleConnTime, MaxHeaderBytes: requestHeaderBytes,
		ErrorLog: a.serverLog(),
	}}
	limited := serving.Limit(h.server, listener, healthConnections)
	go func() {
		if err := h.server.Serve(limited); err != http.ErrServerClosed {
			a.logger().Error("operators are served no more", "error", err)
		}
	}()
	return h, nil
}

// healthMux has what operators may ask. It takes no token: nothing in it is a tenant's.
func healthMux(a *app, g *gateway.Gateway, seen *telemetry) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", seen.metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := g.Ready(r.Context())
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		a.logger().Warn("not ready", "error", err)
		http.Error(w, "not ready: the log says why", http.StatusServiceUnavailable)
	})
	return mux
}

func (h *healthServer) end() {
	if h != nil {
		_ = h.server.Close()
	}
}
