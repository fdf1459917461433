package sshport

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/sshserver"
)

// Port serves SSH for a gateway. Its fields stay as they are while it serves.
type Port struct {
	Gateway *gateway.Gateway
	// HostKeys are those that clients pin, the same at all gateways. A client learns of the first that
	// it knows the type of.
	HostKeys []ssh.Signer
	Log      *slog.Logger // gets who is let in, and why clients leave; nil discards it

	logins   logins
	refusals refusals
	served   sync.WaitGroup

	mu     sync.Mutex
	in     int // connections of clients that were let in
	places int // how many there may be; zero is maxConnections

	keepAlive sshserver.KeepAlive // of each connection
}

// Serve serves until the listener fails, or is closed, which is no error. What connections there are
// then go on: see [Port.Wait].
func (p *Port) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			p.log().Error("cannot accept a connection", "error", err)
			delay.For(context.Background(), acceptPause)
			continue
		}
		from := addressOf(conn)
		counts := p.logins.begin(conn, from)
		p.served.Go(func() { p.serve(conn, from, counts) })
	}
}

// Wait waits until all connections have ended, as they do with their gateway.
func (p *Port) Wait() { p.served.Wait() }

// addressOf returns the address of a client; the zero one if it has none.
func addressOf(conn net.Conn) netip.Addr {
	at, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return at.Addr().Unmap()
}

// config says how a client logs in: by keys alone. The name that it gives is not looked at before.
func (p *Port) config(from netip.Addr, counts *loginConn) *ssh.ServerConfig {
	c := sshserver.NewConfig(p.HostKeys...)
	c.MaxAuthTries, c.PublicKeyAuthAlgorithms = loginTries, gateway.SSHAlgorithms()
	c.PublicKeyCallback = func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		shown := gateway.SSHKey{Key: key, From: from}
		if _, err := p.Gateway.SSHCaller(shown); err != nil {
			return nil, err
		}
		counts.shows()
		return &ssh.Permissions{ExtraData: map[any]any{shownKey{}: shown}}, nil
	}
	return c
}

type shownKey struct{}

// serve serves one connection until it ends. A tenant that has as many as it may takes no place of others.
func (p *Port) serve(conn net.Conn, from netip.Addr, counts *loginConn) {
	defer conn.Close()
	client, channels, requests, err := login(conn, p.config(from, counts))
	counts.done()
	if err != nil {
		p.log().Debug("a client was not let in", "from", from, "error", err)
		if _, tried := errors.AsType[*ssh.ServerAuthError](err); tried {
			p.Gateway.TurnAway(context.Background(), http.StatusUnauthorized, "unauthenticated")
		}
		return
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shown := client.Permissions.ExtraData[shownKey{}].(gateway.SSHKey)
	visit, err := p.Gateway.VisitBySSH(ctx, shown)
	if err != nil {
		of, _ := p.Gateway.SSHCaller(shown) // nobody if the key counts no longer
		p.refuse(conn, of.Tenant, client, channels, requests, err)
		return
	}
	defer visit.End()
	caller := visit.Caller()
	leave, ok := p.enter()
	if !ok {
		visit.End()
		p.refuse(conn, caller.Tenant, client, channels, requests, errPlaces)
		return
	}
	defer leave()
	log := p.log().With("tenant", caller.Tenant, "key", caller.Key, "from", from, "for", client.User()[:min(len(client.User()), maxLogged)])
	log.Info("a client was let in")
	err = p.serverOf(visit, client.User(), log).ServeClient(visit.Valid(), client, channels, requests)
	log.Info("the client has left", "why", err)
}

// login lets a client in, within its time.
func login(conn net.Conn, config *ssh.ServerConfig) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	late := time.AfterFunc(loginTime, func() { conn.Close() })
	defer late.Stop()
	return ssh.NewServerConn(conn, config)
}

// serverOf returns what serves a client that was let in. The user's name says which sandbox, and perhaps
// which terminal, it wants: NAME or NAME+TERMINAL. Where that is no name, each call says so.
func (p *Port) serverOf(visit *gateway.Visit, user string, log *slog.Logger) *sshserver.Server {
	name, terminal, named := strings.Cut(user, "+")
	caller := visit.Caller()
	return &sshserver.Server{
		Sandbox: visit.Sandbox(name), Terminal: terminal, Log: log,
		FindWorkdir: func(ctx context.Context) (string, error) { return visit.Workdir(ctx, name) },
		NoTerminals: caller.NoTerminals, NoPorts: caller.NoPorts, PerFile: gateway.WithDeed, Closing: visit.Closing(), KeepAlive: p.keepAlive,
		Memory: visit.KeepInMemory, Disk: visit.KeepOnDisk, Ahead: visit.KeepAhead,
		Open: func() (func(), error) {
			if err := sshserver.CheckTerminal(terminal); named && err != nil {
				return nil, err
			}
			leave, ok := visit.Channel()
			if !ok {
				return nil, errChannels
			}
			return leave, nil
		},
	}
}

var errChannels = errors.New("the tenant has as many channels open at this gateway as it may")

// enter counts a client that was let in, until leave is called.
func (p *Port) enter() (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in >= cmp.Or(p.places, maxConnections) {
		return nil, false
	}
	p.in++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.in--
	}, true
}

func (p *Port) log() *slog.Logger { return cmp.Or(p.Log, slog.New(slog.DiscardHandler)) }
