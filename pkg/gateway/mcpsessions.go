package gateway

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/mcpserver"
)

// mcpKey names a session.
type mcpKey struct {
	caller  Caller
	sandbox string // its name; "" without an id, for a sandbox of the session's own
	own     bool   // the sandbox is the session's own
	id      string // "" for messages without one, which a sandbox that is named does not need
	toolChoice
}

// toolChoice says which tools a session has.
type toolChoice struct {
	dialect     string // "" for the default
	checkpoints bool   // those of checkpoints, too
}

func (c toolChoice) list() []tools.Tool {
	if c.checkpoints {
		return append(tools.Coding(), tools.Checkpointing()...)
	}
	return tools.Coding()
}

// mcpKeyOf returns the session that a request is of. A session begins with a new id.
func mcpKeyOf(w http.ResponseWriter, r *http.Request, name, method string) (mcpKey, error) {
	key := mcpKey{caller: callerOf(r.Context()), sandbox: name, own: name == ""}
	switch ids := r.Header[headerSession]; {
	case len(ids) == 1 && isSessionID(ids[0], key.caller, name):
		key.id = ids[0]
	case len(ids) > 0:
		return key, errSessionEnd
	case method == "initialize":
		key.id = newSessionID(key.caller, name, time.Now())
		w.Header().Set(headerSession, key.id)
	case key.own && (method == mcpCall || method == mcpRead):
		return key, errNoSession
	}
	if key.own && key.id != "" {
		sum := digestOf("mcp sandbox", key.caller.Key, key.id)
		key.sandbox = "m-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
	}
	return key, nil
}

// newSessionID returns the id of a new session: its time and what makes it unique, with a digest of
// whose it is. A caller can make ids, too, but none that is another's.
func newSessionID(caller Caller, name string, now time.Time) string {
	text := strconv.FormatInt(now.UnixMilli(), 10) + "-" + strings.ToLower(rand.Text())
	return text + "-" + sessionDigest(text, caller, name)
}

func sessionDigest(text string, caller Caller, name string) string {
	sum := digestOf("mcp session", caller.Tenant, caller.Key, name, text)
	return hex.EncodeToString(sum[:16])
}

func isSessionID(id string, caller Caller, name string) bool {
	i := strings.LastIndexByte(id, '-')
	return i > 0 && len(id) <= sessionIDLimit && id[i+1:] == sessionDigest(id[:i], caller, name)
}

// begun returns when the session began that an id is of.
func (k mcpKey) begun() time.Time {
	text, _, _ := strings.Cut(k.id, "-")
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(n)
}

// mcpSession is what a gateway keeps of a session, for as long as it likes: where the outputs of
// commands were read to, and which calls can be cancelled.
type mcpSession struct {
	mcpKey
	once   sync.Once
	tools  *tools.Session
	server *mcp.Server
	making chan struct{} // has room for one who makes the session's own sandbox

	mu      sync.Mutex
	there   bool // the session's own sandbox was
	running map[string]context.CancelFunc

	// mcpSessions.mu guards these.
	users  int
	left   time.Time // by the last user
	expiry *time.Timer
}

// mcpSessions serves sessions.
type mcpSessions struct {
	gateway *Gateway
	sdk     *mcp.StreamableHTTPHandler
	idle    time.Duration // after which a session ends

	mu       sync.Mutex
	byTenant map[string]map[mcpKey]*mcpSession
	closed   bool
}

func newMCPSessions(g *Gateway) *mcpSessions {
	m := &mcpSessions{
		gateway: g, idle: sessionIdle, byTenant: map[string]map[mcpKey]*mcpSession{},
		sdk: mcp.NewStreamableHTTPHandler(serverOf, &mcp.StreamableHTTPOptions{
			Stateless: true, MaxRequestBodyBytes: bodyLimit,
			// A proxy on this machine may keep the Host. Pages of browsers are refused in any case.
			DisableLocalhostProtection: true,
		}),
	}
	return m
}

// get returns a session, which counts as used until release.
func (m *mcpSessions) get(key mcpKey) *mcpSession {
	s := m.enter(key)
	s.once.Do(func() {
		sandbox := &launcher.Sandbox{Client: podapi.Deferred(clientIn, func() error { return nil })}
		s.tools = tools.New(sandbox, tools.Options{Dialect: s.dialect}, s.toolChoice.list()...)
		var versions []string
		if s.own {
			versions = withSessions()
		}
		s.server = mcpserver.New(sandbox, s.tools, versions...)
		s.server.AddReceivingMiddleware(m.working)
	})
	return s
}

// withSessions returns the versions of the protocol that have sessions.
func withSessions() []string {
	return slices.DeleteFunc(mcp.SupportedProtocolVersions(), func(version string) bool { return version >= "2026-07-28" })
}

func (m *mcpSessions) enter(key mcpKey) *mcpSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.byTenant[key.caller.Tenant]
	if of == nil {
		of = map[mcpKey]*mcpSession{}
		m.byTenant[key.caller.Tenant] = of
	}
	s := of[key]
	if s == nil {
		if len(of) >= sessionsKept {
			m.dropOldest(of)
		}
		s = &mcpSession{mcpKey: key, making: make(chan struct{}, 1), running: map[string]context.CancelFunc{}}
		of[key] = s
	}
	s.users++
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	return s
}

func (m *mcpSessions) release(s *mcpSession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.users--
	if s.users == 0 && !m.closed {
		s.left = time.Now()
		s.expiry = time.AfterFunc(m.idle, func() { m.expire(s) })
	}
}

func (m *mcpSessions) expire(s *mcpSession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.users == 0 {
		m.drop(s)
	}
}

// dropOldest forgets the session of a tenant that nobody has used for longest.
func (m *mcpSessions) dropOldest(of map[mcpKey]*mcpSession) {
	var oldest *mcpSession
	for _, s := range of {
		if s.users == 0 && (oldest == nil || s.left.Before(oldest.left)) {
			oldest = s
		}
	}
	if oldest != nil {
		m.drop(oldest)
	}
}

// drop forgets a session that nobody uses. It can go on, with another record of it.
func (m *mcpSessions) drop(s *mcpSession) {
	if of := m.byTenant[s.caller.Tenant]; of[s.mcpKey] == s {
		delete(of, s.mcpKey)
		if s.expiry != nil {
			s.expiry.Stop()
		}
		go m.tidy(s)
	}
}

// close forgets all sessions. They go on with other gateways.
func (m *mcpSessions) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, of := range m.byTenant {
		for _, s := range of {
			if s.expiry != nil {
				s.expiry.Stop()
			}
		}
	}
	clear(m.byTenant)
}

// cancellable has a call cancelled by a later message of its session, until done is called. Later
// versions of the protocol cancel by leaving.
func (s *mcpSession) cancellable(message mcpMessage, cancel context.CancelFunc) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.id == "": // the ids of messages are those of several clients
	case message.Method == "notifications/cancelled":
		var of struct {
			ID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(message.Params, &of)
		if end := s.running[string(of.ID)]; end != nil {
			end()
		}
	case message.Method == mcpCall && len(message.ID) > 0:
		id := string(message.ID)
		s.running[id] = cancel
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, id)
		}
	}
	return func() {}
}

type mcpClientKey struct{}

// opening is how the client of a session's sandbox is got.
type opening = func() (*podapi.Client, error)

func withClient(ctx context.Context, open opening) context.Context {
	return context.WithValue(ctx, mcpClientKey{}, open)
}

// clientIn returns the client of the open sandbox of a call.
func clientIn(ctx context.Context) (*podapi.Client, error) {
	open, ok := ctx.Value(mcpClientKey{}).(opening)
	if !ok {
		return nil, errors.New("the call has no sandbox")
	}
	return open()
}

// tidy removes the outputs that a session keeps in its sandbox, if that is there and awake.
func (m *mcpSessions) tidy(s *mcpSession) {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), callerKey{}, s.caller), tidyTime)
	defer cancel()
	id, held := launcherID(s.caller.Tenant, s.sandbox), m.gateway.held
	var opened *heldSandbox
	_ = s.tools.Close(withClient(ctx, func() (*podapi.Client, error) { // asks for a client only if it keeps any
		var err error
		if opened, err = held.get(ctx, id, false); err != nil {
			return nil, err
		}
		return opened.sandbox.Client, nil
	}))
	if opened != nil {
		held.release(id, opened)
	}
}
