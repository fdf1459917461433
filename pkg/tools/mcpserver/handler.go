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

// HandlerOptions are the options of a Handler.
type HandlerOptions struct {
	// Token is the secret that clients must send as "Authorization: Bearer
	// TOKEN". It has at least MinToken bytes, all of them printable ASCII without
	// spaces.
	Token string
	// Origins are the accepted values of the Origin header. Programs send no such
	// header, but web pages in a browser do: pages of other origins are refused.
	Origins []string
	// MaxSessions bounds the sessions at one time; 0 means DefaultMaxSessions.
	MaxSessions int
	// IdleTimeout is how long a session lasts after its last request; 0 means
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	// Log gets messages about the sessions; nil means no log.
	Log *slog.Logger
}

// Handler serves the protocol over its streamable HTTP transport. Each client has
// its own session, until the client ends it, the session is idle for too long, or
// the Handler is shut down. A client whose connection was cut can reconnect and
// gets the answers that it missed.
//
// A Handler serves any path, and has no TLS. It refuses requests without the
// token with status 401, and requests with an Origin that is not accepted with
// 403. It also answers 403 to requests that come over the loopback with another
// Host, because a web page may have resolved its own name to this machine (DNS
// rebinding). It does not answer preflight requests of browsers: a host that
// wants to must wrap it.
type Handler struct {
	opts     HandlerOptions
	token    [sha256.Size]byte
	inner    *mcp.StreamableHTTPHandler
	sessions *sessions
}

// NewHandler returns a Handler. It calls open for each new session. open returns a
// server for this session alone, and a function to call once when the session has
// ended. Clients may open sessions without using them, so open should be cheap,
// such as with a sandbox that its first call launches. The client gets its error.
func NewHandler(open func() (server *mcp.Server, end func(), err error), opts HandlerOptions) (*Handler, error) {
	if err := checkToken(opts.Token); err != nil {
		return nil, err
	}
	if opts.MaxSessions < 0 || opts.IdleTimeout < 0 {
		return nil, fmt.Errorf("MaxSessions %d and IdleTimeout %v must not be negative", opts.MaxSessions, opts.IdleTimeout)
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
		return fmt.Errorf("the token for clients has %d bytes, and needs at least %d", len(token), MinToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("the token for clients must consist of printable ASCII without spaces")
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !h.isFromAllowedOrigin(r):
		http.Error(w, "this origin is not allowed", http.StatusForbidden)
	case !h.hasToken(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the request needs the token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
	default:
		h.serve(bounded(w, r), r)
	}
}

// isFromAllowedOrigin is stricter than [http.CrossOriginProtection]: the protocol
// requires the check for all methods, and a page that resolved its name to this
// machine has the same origin.
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
	sum := sha256.Sum256([]byte(strings.TrimSpace(token))) // so that timing does not reveal the length
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
	defer h.sessions.watch(s)
	h.inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, s.server)))
}

// serverKey is the context key of a new session's server, in the request that
// begins the session.
type serverKey struct{}

// serverOf returns the server of a new session, nil for other requests. The SDK
// calls it for every request, maybe more than once.
func serverOf(r *http.Request) *mcp.Server {
	server, _ := r.Context().Value(serverKey{}).(*mcp.Server)
	return server
}

// Shutdown ends all sessions with their running calls, and waits until the
// sessions' end functions have returned. If ctx ends first, Shutdown returns its
// error. Later requests are refused. Call it before Shutdown of the
// [http.Server], which waits for responses.
func (h *Handler) Shutdown(ctx context.Context) error { return h.sessions.shutdown(ctx) }
