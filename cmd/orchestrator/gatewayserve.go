package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/podagent/podagent/cmd/orchestrator/internal/serving"
	"github.com/podagent/podagent/pkg/gateway"
	webconsole "github.com/podagent/podagent/pkg/gateway/console"
)

// serveGateway serves until ctx ends, and then until callers have left, or its patience ends.
func (a *app) serveGateway(ctx context.Context, o *gatewayFlags, options gateway.Options) (failed error) {
	listener, err := listenAt(o.http.flags.Lookup("listen"), o.http.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if options.Domain == "localhost" { // nothing stands before it
		options.Domain = net.JoinHostPort(options.Domain, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	}
	options.TLS = o.pair != nil
	if err := o.placeConsole(listener.Addr().(*net.TCPAddr), options.Domain); err != nil {
		return err
	}
	seen, err := o.watched.begin(ctx, a)
	if err != nil {
		return err
	}
	defer seen.end(context.WithoutCancel(ctx))
	observers, endAudit, err := o.audit.begin(a)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, endAudit()) }() // when nothing is served any more
	options.Observers = append(append(options.Observers, keeper{}), seen.observers(observers)...)
	options.Swept = seen.metrics.Swept
	// net/http writes what hostile servers send into the standard log.
	log.SetOutput(slog.NewLogLogger(a.logger().Handler(), slog.LevelDebug).Writer())
	g := gateway.New(options)
	health, err := a.serveHealth(o, g, seen)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	defer health.end()
	ssh, err := a.serveSSHPort(ctx, &o.ssh, g)
	if err == nil {
		defer ssh.end()
		a.tellIsolationOfServers()
		err = a.printGateway(listener, health, ssh, o)
	}
	if err != nil {
		return errors.Join(err, g.Close())
	}
	return a.serveUntil(ctx, o, listener, ssh, g, o.handler(g))
}

// serveUntil serves by a handler until ctx ends or the listener fails, and ends the gateway.
func (a *app) serveUntil(ctx context.Context, o *gatewayFlags, listener *net.TCPListener, ssh *sshService, g *gateway.Gateway, handler http.Handler) error {
	server := a.gatewayServer(handler, o.pair)
	limited := serving.Limit(server, listener, o.connections)
	served := make(chan error, 1)
	go func() {
		if o.pair != nil {
			served <- server.ServeTLS(limited, "", "")
			return
		}
		served <- server.Serve(limited)
	}()
	var err error
	var delay time.Duration
	select {
	case err = <-served:
	case <-ctx.Done():
		err, delay = context.Cause(ctx), o.drainDelay
	}
	return errors.Join(err, endGateway(context.WithoutCancel(ctx), server, ssh, g, delay))
}

// gatewayServer returns the server of a gateway, by TLS if there is a certificate.
func (a *app) gatewayServer(handler http.Handler, pair *serving.KeyPair) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(pair != nil)
	protocols.SetUnencryptedHTTP2(pair == nil)
	server := &http.Server{
		Handler: handler, Protocols: protocols, DisableGeneralOptionsHandler: true, // "OPTIONS *" may be for a sandbox
		ReadHeaderTimeout: requestHeaderTime, MaxHeaderBytes: requestHeaderBytes, IdleTimeout: idleConnTime,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: peerPing, PingTimeout: peerTime, WriteByteTimeout: peerTime},
		ErrorLog: a.serverLog(),
	}
	if pair != nil {
		server.TLSConfig = pair.Config()
	}
	return server
}

// printGateway says where the gateway serves, and by which token if it made that up: beside the audit log if that goes to standard output.
func (a *app) printGateway(listener net.Listener, health *healthServer, ssh *sshService, o *gatewayFlags) error {
	where := struct {
		URL     string `json:"url"`
		Health  string `json:"health_url,omitempty"`
		SSH     string `json:"ssh_url,omitempty"`
		HostKey string `json:"ssh_host_key,omitempty"`
		Console string `json:"console_url,omitempty"`
	}{URL: "http://" + listener.Addr().String(), SSH: ssh.url(), HostKey: ssh.hostKey()}
	if o.pair != nil {
		where.URL = "https://" + listener.Addr().String()
	}
	if o.madeUp != "" {
		a.note("the token of callers, made up for this time, is %s", o.madeUp)
	}
	if health != nil {
		where.Health = "http://" + health.listener.Addr().String()
		a.note("operators find /healthz, /readyz and /metrics at %s", where.Health)
	}
	if ssh != nil {
		a.note("SSH is at %s, with the host key %s (%s)", where.SSH, where.HostKey, ssh.fingerprint())
	}
	if o.console {
		where.Console = webconsole.URL(cmp.Or(o.consoleAt, where.URL))
		a.note("people find the console at %s, by a token", where.Console)
	}
	if o.audit.to == toStdout {
		a.note("the gateway serves at %s", where.URL)
		return nil
	}
	return a.print(where, where.URL+"\n")
}

// endGateway lets those who can go on elsewhere do so, and the calls that are under way come to
// their end.
func endGateway(ctx context.Context, server *http.Server, ssh *sshService, g *gateway.Gateway, delay time.Duration) error {
	g.Drain()
	time.Sleep(delay) // a second signal ends the program
	ssh.end()
	patience, cancel := context.WithTimeout(ctx, gatewayEnd)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- g.Shutdown(patience) }()
	last, cancel := context.WithTimeout(ctx, gatewayEnd+gatewayLast)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close()
	}
	return <-closed
}

// serverLog is the log of an HTTP server. What strangers cause at will is for debugging.
func (a *app) serverLog() *log.Logger {
	of := func(level slog.Level) io.Writer { return slog.NewLogLogger(a.logger().Handler(), level).Writer() }
	return log.New(&serverLog{of(slog.LevelWarn), of(slog.LevelDebug)}, "", 0)
}

type serverLog struct{ warn, debug io.Writer }

func (l *serverLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		return l.debug.Write(line)
	}
	return l.warn.Write(line)
}
