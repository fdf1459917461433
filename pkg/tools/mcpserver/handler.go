package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// HandlerOptions say how a Handler serves.
type HandlerOptions struct {
	// Token is what clients show, as "Authorization: Bearer TOKEN". It has
	// MinToken bytes at least, and none that a header cannot have.
	Token string
	// Origins are the values of the Origin header that are let in. Programs
	// send none; the page of a browser does, so that a page that somebody was
	// led to is refused.
	Origins []string
	// MaxSessions is how many sessions there are at once; 0 means
	// DefaultMaxSessions.
	MaxSessions int
	// IdleTimeout is how long a session lasts after its last request; 0 means
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	// Log gets what goes on; nil means nobody.
	Log *slog.Logger
}

// Handler serves the protocol over its streamable HTTP transport: each client
// has a session of its own, until it ends it, is silent for too long, or the
// Handler is shut down. A client whose connection was cut comes back to the
// answers that it missed.
//
// It is for any path, and speaks no TLS. Requests without the token are refused
// with status 401; those with an Origin that is not let in with 403, as those
// are that came over the loopback for a host that is not it, since a page may
// have had its own name resolved to this machine (DNS rebinding). It answers no
// preflight requests of browsers: a host that wants those wraps it.
type Handler struct {
	opts     HandlerOptions
	token    [sha256.Size]byte
	inner    *mcp.StreamableHTTPHandler
	sessions *sessions
}

// NewHandler returns a Handler. It calls open for each session, for a server
// that serves this session alone, and for what to do once when it has ended.
// Clients try things out: open is to be cheap, as with a sandbox that the first
// call launches. Its error is the client's.
func NewHandler(open func() (server *mcp.Server, end func(), err error), opts HandlerOptions) (*Handler, error) {
	if err := checkToken(opts.Token); err != nil {
		return nil, err
	}
	if opts.MaxSessions < 0 || opts.IdleTimeout < 0 {
		return nil, fmt.Errorf("a handler for %d sessions that last %v can serve nobody", opts.MaxSessions, opts.IdleTimeout)
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	events := mcp.NewMemoryEventStore(nil)
	events.SetMaxBytes(maxReplayed)
	inner := mcp.NewStreamableHTTPHandler(serverOf, &mcp.StreamableHTTPOptions{
		Logger: opts.Log, EventStore: events, MaxRequestBodyBytes: maxRequest,
		SessionTimeout: cmp.Or(opts.IdleTimeout, DefaultIdleTimeout),
	})
	return &Handler{
		opts: opts, token: sha256.Sum256([]byte(opts.Token)), inner: inner,
		sessions: newSessions(open, cmp.Or(opts.MaxSessions, DefaultMaxSessions)),
	}, nil
}

func checkToken(token string) error {
	if len(token) < MinToken {
		return fmt.Errorf("the token for clients has %d bytes, and needs %d at least", len(token), MinToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("the token for clients has characters that a header cannot have: ASCII without spaces can")
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !h.isFromAllowedOrigin(r):
		http.Error(w, "this origin is not let in", http.StatusForbidden)
	case !h.hasToken(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the request needs the token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
	default:
		h.serve(bounded(w, r), r)
	}
}

// isFromAllowedOrigin is stricter than [http.CrossOriginProtection]: the
// protocol wants all methods checked, and a page whose name was made to resolve
// to this machine is of the same origin.
func (h *Handler) isFromAllowedOrigin(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(h.opts.Origins, origin) {
			return false
		}
	}
	return true
}

func (h *Handler) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token))) // so that its length takes no time either
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodPost && id == "" {
		h.begin(w, r)
		return
	}
	if r.Method == http.MethodDelete {
		h.sessions.cancel(id)
	}
	h.inner.ServeHTTP(w, r)
}

// begin serves a request that may begin a session.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request) {
	s, err := h.sessions.open(r.Context())
	if err != nil {
		h.opts.Log.Warn("no session for a client", "error", err)
		w.Header().Set("Retry-After", "10")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer h.sessions.settle(s)
	h.inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, s.server)))
}

// serverKey is the key of a new session's server among the values of the
// request that begins it.
type serverKey struct{}

// serverOf returns the server of a new session, nil for other requests: the
// SDK asks for all of them, and may do so more than once.
func serverOf(r *http.Request) *mcp.Server {
	server, _ := r.Context().Value(serverKey{}).(*mcp.Server)
	return server
}

// Shutdown ends all sessions, and the calls that are under way, and waits for
// what is done at their ends, or for ctx, whose error it returns then. Requests
// that come later are refused. It is called before that of an [http.Server],
// which waits for responses.
func (h *Handler) Shutdown(ctx context.Context) error { return h.sessions.shutdown(ctx) }
