package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/tools"
)

// The Model Context Protocol is served at mcpPath, by its streamable HTTP transport: the tools of
// package tools, in the sandbox that the query names, or in one of the session's own.
//
// A session is no state of the gateway. Its id says what must be known of it (mcpsessions.go), and
// each request is answered by itself, so that any gateway goes on with it. What a gateway keeps of a
// session only saves work. There is no stream of the server's own (GET), since the server begins
// nothing, and an answer whose connection breaks is lost: as in an exec without a key, the command
// ends with its caller.
const mcpPath = "/mcp"

const (
	headerSession = "Mcp-Session-Id"
	// mcpOperation is the operation of messages that do nothing in a sandbox, and begins those of
	// the others.
	mcpOperation = "mcp"
	mcpCall      = "tools/call"
	mcpRead      = "resources/read"
)

var (
	errPage       = &refusal{http.StatusForbidden, "not_allowed", "pages of browsers are not served the Model Context Protocol"}
	errMCPMethod  = &refusal{http.StatusMethodNotAllowed, "unsupported", "the method must be POST or DELETE: there is no stream but the answers to messages"}
	errMalformed  = &refusal{http.StatusBadRequest, "invalid", "the message is malformed: it must be one JSON object"}
	errBatch      = &refusal{http.StatusBadRequest, "unsupported", "the messages of a batch must be sent one by one"}
	errNoSession  = &refusal{http.StatusBadRequest, "invalid", "the request has no " + headerSession + ", without which it must name a sandbox: " + mcpPath + "?sandbox=NAME"}
	errSessionEnd = &refusal{http.StatusNotFound, "no_session", "there is no such session, or it has ended: begin another one"}
)

// errPanicked says nothing of the gateway.
var errPanicked = errors.New("the gateway has a fault")

// mcpMessage is what the gateway itself needs of a message.
type mcpMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// mcpRequest is a request with a message.
type mcpRequest struct {
	session *mcpSession
	calling context.Context // ends when the caller leaves or cancels the message
}

type mcpRequestKey struct{}

// ServeHTTP implements [http.Handler].
func (m *mcpSessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := m.serve(w, r); err != nil {
		m.gateway.refuse(w, r, err)
	}
}

func (m *mcpSessions) serve(w http.ResponseWriter, r *http.Request) error {
	actOf(r.Context()).is(mcpOperation, "")
	name, chosen, err := inMCPQuery(r.URL.RawQuery)
	switch {
	case fromBrowser(r): // one that was led here by a name of its own, too
		return errPage
	case err != nil:
		return err
	case r.Method == http.MethodDelete:
		return m.end(w, r, name, chosen)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST, DELETE")
		return errMCPMethod
	}
	body, status := readBody(r, bodyLimit)
	if status != nil {
		return status
	}
	message, err := parseMCP(body)
	if err != nil {
		return err
	}
	key, err := mcpKeyOf(w, r, name, message.Method)
	if err != nil {
		return err
	}
	key.toolChoice = chosen
	s := m.get(key)
	defer m.release(s)
	if err := m.check(r.Context(), s); err != nil {
		return err
	}
	return m.answer(w, r, s, message, body)
}

// answer has the SDK answer a message. If the gateway or the key has ended meanwhile, or the caller
// has left, nobody takes what came for an answer.
func (m *mcpSessions) answer(w http.ResponseWriter, r *http.Request, s *mcpSession, message mcpMessage, body []byte) error {
	calling, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer s.cancellable(message, cancel)()
	r = r.WithContext(context.WithValue(r.Context(), mcpRequestKey{}, &mcpRequest{s, calling}))
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := &mcpAnswer{ResponseWriter: w, last: m.gateway.streams.draining.Err() != nil}
	m.sdk.ServeHTTP(answer, r)
	cause := context.Cause(r.Context())
	if cause != nil && answer.began {
		panic(http.ErrAbortHandler)
	}
	return cause
}

// mcpAnswer is what the SDK answers with. It would keep connections that are to be closed.
type mcpAnswer struct {
	http.ResponseWriter
	began, last bool
}

func (a *mcpAnswer) WriteHeader(status int) {
	a.begin()
	a.ResponseWriter.WriteHeader(status)
}

func (a *mcpAnswer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

func (a *mcpAnswer) begin() {
	if !a.began && a.last {
		a.Header().Set("Connection", "close")
	}
	a.began = true
}

// Unwrap is for [http.ResponseController].
func (a *mcpAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// parseMCP reads a message. The SDK reads it again: what is no message, it refuses.
func parseMCP(body []byte) (m mcpMessage, err error) {
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		return m, errBatch // rates and streams would count its messages as one
	}
	if !json.Valid(body) {
		return m, errMalformed // the SDK would take what begins like one
	}
	_ = json.Unmarshal(body, &m)
	return m, nil
}

// inMCPQuery returns what the query of a request has: the name of the sandbox, "" for one of the
// session's own, and which tools there are.
func inMCPQuery(raw string) (sandbox string, chosen toolChoice, err error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return "", chosen, invalid("the query: %v", err)
	}
	for name, values := range query {
		if !slices.Contains([]string{"sandbox", "dialect", "checkpoint_tools"}, name) || len(values) != 1 {
			return "", chosen, invalid("the query may only have sandbox, dialect and checkpoint_tools, each once")
		}
	}
	if query.Has("sandbox") {
		if err := CheckName(query.Get("sandbox")); err != nil {
			return "", chosen, invalid("%v", err)
		}
	}
	chosen, err = toolsIn(query)
	return query.Get("sandbox"), chosen, err
}

// toolsIn returns which tools a query asks for.
func toolsIn(query url.Values) (chosen toolChoice, err error) {
	chosen.dialect = query.Get("dialect")
	if query.Has("dialect") && !slices.Contains(tools.Dialects(), chosen.dialect) {
		return chosen, invalid("there is no dialect %q of the tools; the dialects are %s", chosen.dialect, strings.Join(tools.Dialects(), ", "))
	}
	if query.Has("checkpoint_tools") {
		if chosen.checkpoints, err = strconv.ParseBool(query.Get("checkpoint_tools")); err != nil {
			return chosen, invalid("checkpoint_tools must be true or false")
		}
	}
	return chosen, nil
}

// serverOf returns the SDK's server for a request.
func serverOf(r *http.Request) *mcp.Server {
	return r.Context().Value(mcpRequestKey{}).(*mcpRequest).session.server
}

// working has the messages that work in a sandbox do so in the session's.
func (m *mcpSessions) working(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if panicked := recover(); panicked != nil { // nobody else would, and all requests would end
				m.gateway.Log.ErrorContext(ctx, "a message of the Model Context Protocol made the gateway panic", "panic", panicked, "stack", string(debug.Stack()))
				result, err = nil, errPanicked
			}
		}()
		q := ctx.Value(mcpRequestKey{}).(*mcpRequest)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(q.calling, func() { cancel(context.Cause(q.calling)) })
		defer stop()
		if method != mcpCall && method != mcpRead {
			return next(ctx, method, r)
		}
		result, err = m.work(ctx, q.session, r, func(ctx context.Context) (mcp.Result, error) { return next(ctx, method, r) })
		if err == nil {
			return result, nil
		}
		return m.failed(ctx, method, err)
	}
}

// failed returns the answer to a message that did nothing, or not all. A model is told why its call
// failed: it may do something about it, or say it.
func (m *mcpSessions) failed(ctx context.Context, method string, err error) (mcp.Result, error) {
	if errors.As(err, new(*jsonrpc.Error)) {
		return nil, err // the message was wrong
	}
	p := problemOf(m.gateway.problem(ctx, err))
	if method == mcpCall {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: p.Detail}}}, nil
	}
	return nil, errors.New(p.Detail)
}
