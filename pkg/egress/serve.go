package egress

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/egress/internal/trust"
	"github.com/podagent/podagent/pkg/podapi"
)

// Options says how a [Server] serves. The zero value allows nothing.
type Options struct {
	// Policy is what the sandbox may reach at first; see [Server.SetPolicy].
	Policy Policy
	// Generation orders the far ends of one sandbox: the highest serves, the others
	// stand by.
	Generation uint64
	// Log is called with each decision, by several goroutines at once, and holds up the
	// connection that it is about. nil means that nothing is logged.
	Log func(Decision)
	// Admit, unless nil, is called with each connection before anything is read of it. It returns
	// the connection, or another one in its place, such as one that counts its bytes; that must
	// have CloseWrite and SetLinger, too. Its error refuses the connection, and is the reason that
	// the sandbox is told.
	Admit func(net.Conn) (net.Conn, error)
	// MayTry, unless nil, is called before each try: each connection that a client asks for, and each
	// request of those that the server reads, such as a later one of the same connection. Its error
	// refuses that, and is the reason that the sandbox is told.
	MayTry func() error
	// Resolver looks up names; nil means [net.DefaultResolver].
	Resolver Resolver
	// Exclusive makes serving fail, or end, with [farend.ErrServed] while another far end serves,
	// by its own policy. Otherwise this one stands by then.
	Exclusive bool
	// Changed, unless nil, is called when the server begins to serve or to stand by, and when it
	// has lost the agent, which it calls again. Calls come one after the other.
	Changed func(farend.State)
	// Private has ranges that are refused unless a rule names the address, beside those
	// that are private everywhere: the pods and services of a cluster, say.
	Private []netip.Prefix
	// Secrets are credentials that programs in the sandbox use without having them. For
	// their hosts TLS is opened; see docs/egress.md.
	Secrets []Secret
	// Seed, if not empty, gives all far ends that have it the same placeholders and the
	// same CA, as replicas need that serve one sandbox in turn. It has 16 bytes or more,
	// which are secret, and another one for each sandbox.
	Seed []byte
	// Roots verify the hosts of secrets; nil means those of this machine.
	Roots *x509.CertPool

	headerTime, goneTime time.Duration // 0 means the one in limits.go
}

// Server is the far end of one sandbox.
type Server struct {
	proxy   *proxy
	secrets *secretSet // nil without any
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // of the listener; set before done closes
}

// Serve makes the caller the far end of a sandbox's way out, until ctx ends, [Server.Close], or
// the sandbox is gone. It returns once it serves or stands by. The error is [podapi.ErrVersion] if
// the agent is too old.
func Serve(ctx context.Context, client *podapi.Client, opts Options) (*Server, error) {
	listening := farend.Options{Generation: opts.Generation, Exclusive: opts.Exclusive, Changed: opts.Changed}
	o, err := newTLSOpener(opts)
	if err != nil {
		return nil, err
	}
	if o != nil {
		return serveSecrets(ctx, client, opts, listening, o)
	}
	l, err := farend.Listen(ctx, client, listening)
	if err != nil {
		return nil, err
	}
	return start(ctx, l, opts, nil), nil
}

// serveSecrets is Serve with secrets, for which the sandbox is made ready first.
func serveSecrets(ctx context.Context, client *podapi.Client, opts Options, listening farend.Options, o *tlsOpener) (*Server, error) {
	t, err := trust.Install(ctx, client, o.ca, o.secrets.placeholders(), o.shared)
	if err != nil {
		return nil, fmt.Errorf("preparing the sandbox for secrets: %w", err)
	}
	kept, cancel := context.WithCancel(ctx)
	listening.Env, listening.Changed = t.Env(), renewing(kept, t, opts)
	l, err := farend.Listen(ctx, client, listening)
	if err != nil {
		cancel()
		t.Remove(ctx)
		return nil, err
	}
	s := startUntil(ctx, l, opts, o, func() {
		cancel()
		t.Remove(context.WithoutCancel(ctx))
	})
	s.secrets = o.secrets
	if !l.Serving() { // the files of placeholders are those of the far end that serves
		return s, nil
	}
	if err := t.Begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// renewing returns what writes the files of a sandbox again whenever the far end begins to serve later
// than at once: an agent that started again may have lost them. Then it tells the owner of the options.
func renewing(ctx context.Context, t *trust.Trust, opts Options) func(farend.State) {
	later := false
	return func(s farend.State) {
		if s.Serving && later {
			t.Renew(ctx, func(err error) {
				if opts.Log != nil {
					opts.Log(Decision{Time: time.Now(), Verdict: Failed, Reason: err.Error()})
				}
			})
		}
		later = true
		if opts.Changed != nil {
			opts.Changed(s)
		}
	}
}

// Done is closed when serving has ended; [Server.Close] then returns why.
func (s *Server) Done() <-chan struct{} { return s.done }

// start serves what a listener accepts.
func start(ctx context.Context, l net.Listener, opts Options, o opener) *Server {
	return startUntil(ctx, l, opts, o, func() {})
}

// startUntil is start, and calls over when that has ended.
func startUntil(ctx context.Context, l net.Listener, opts Options, o opener, over func()) *Server {
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{proxy: newProxy(opts, o), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer over()
		defer cancel()
		s.err = s.proxy.serve(ctx, l)
	}()
	return s
}

// SetPolicy changes what the sandbox may reach, from now on. Connections that the new
// policy would refuse are reset.
func (s *Server) SetPolicy(p Policy) { s.proxy.setPolicy(p) }

// Close ends serving, and resets the connections that it carries. It returns why serving
// had ended before, if it had.
func (s *Server) Close() error {
	s.cancel()
	<-s.done
	return s.err
}
