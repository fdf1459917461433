package gateway

import (
	"encoding/base64"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gorilla/websocket"

	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
	"github.com/podagent/podagent/pkg/podapi"
)

const (
	// terminalProtocol is the WebSocket subprotocol of terminals.
	terminalProtocol = "podagent.terminal.v1"
	// tokenProtocol begins a subprotocol that brings the token, in base64url without padding, for
	// browsers, whose pages cannot set headers here. It is never chosen, and so never echoed.
	tokenProtocol = "podagent.token."
)

// loginShell runs the sandbox's shell. Service accounts may have one that lets nobody in.
const loginShell = `case $SHELL in "" | */nologin | */false) SHELL=bash ;; esac
command -v "$SHELL" >/dev/null || SHELL=sh
exec "$SHELL"`

const terminalDoc = `The connection is a WebSocket of the subprotocol ` + terminalProtocol + `. Without exec_id it starts a terminal, with script, args, or else a shell; with exec_id it attaches to one, which shows its screen again unless stdout_offset says where its output goes on. A caller that leaves lets the terminal run on.

Binary frames have bytes, after their offset of 8 bytes, big-endian: those of the caller input, up to 64 KiB, those of the gateway output. Input that was taken already is left out; a gap is refused. Text frames have JSON: the gateway's are of the schema TerminalEvent, the caller's of TerminalRequest. The first is start, with the offset at which input goes on; ack says how much was taken, so that a caller whose connection breaks sends the rest over another one.

The code at the end is 1000 after exit; 1001 if the gateway ends, so that the caller should connect again; 1009 for a frame that is too large; and otherwise 4000 and the HTTP status of the problem, which comes as a frame of type error before.`

// terminalOperation is a GET that works in the sandbox.
const terminalOperation = "open-terminal"

func (g *Gateway) terminalOperations() {
	several := func(name, doc string) *huma.Param {
		p := param("query", name, huma.TypeArray, doc)
		p.Schema.Items = &huma.Schema{Type: huma.TypeString}
		return p
	}
	g.schema(reflect.TypeFor[TerminalEvent]())
	g.schema(reflect.TypeFor[TerminalRequest]())
	g.raw(huma.Operation{
		OperationID: terminalOperation, Method: http.MethodGet, Path: sandboxRoot + "/terminal", Summary: "Open a terminal, or one that runs", Description: terminalDoc,
		Parameters: []*huma.Param{
			param("query", "exec_id", huma.TypeString, "the terminal to attach to"),
			param("query", "stdout_offset", huma.TypeInteger, "where its output goes on, in bytes"),
			param("query", "script", huma.TypeString, "a script to start"),
			several("args", "a command and its arguments to start; once for each"),
			param("query", "dir", huma.TypeString, "the working directory"),
			several("env", "NAME=VALUE; secrets belong into the body of exec, which can start a terminal, too"),
			param("query", "cols", huma.TypeInteger, "the terminal's width: 80 without it"),
			param("query", "rows", huma.TypeInteger, "the terminal's height: 24 without it"),
			param("header", idempotencyKey, huma.TypeString, "as of exec: a repeated request starts nothing again"),
			param("query", "idempotency_key", huma.TypeString, "in place of the header"),
			wakeParam,
		},
		Responses: map[string]*huma.Response{"101": {Description: "the WebSocket is open"}},
	}, func(c *rawCall) error { return c.openTerminal(g) })
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Cols int `json:"cols" minimum:"1" maximum:"65535"`
	Rows int `json:"rows" minimum:"1" maximum:"65535"`
}

func (s TerminalSize) size() *podapi.TerminalSize {
	return &podapi.TerminalSize{Rows: s.Rows, Columns: s.Cols}
}

// TerminalEvent is a text frame of the gateway.
type TerminalEvent struct {
	Type        string   `json:"type" enum:"start,ack,exit,error" doc:"start is the first, exit or error the last"`
	ExecID      string   `json:"exec_id,omitempty" doc:"of start"`
	StdinOffset *int64   `json:"stdin_offset,omitempty" doc:"of start and ack: how many bytes of input were taken"`
	StdinOpen   *bool    `json:"stdin_open,omitempty" doc:"of start: it takes more"`
	Exit        *Exit    `json:"exit,omitempty" doc:"of exit"`
	Problem     *Problem `json:"problem,omitempty" doc:"of error"`
}

// TerminalRequest is a text frame of the caller.
type TerminalRequest struct {
	Type   string `json:"type" enum:"resize,signal,end" doc:"end types the end of input, as Ctrl-D does"`
	Cols   int    `json:"cols,omitempty" doc:"of resize"`
	Rows   int    `json:"rows,omitempty" doc:"of resize"`
	Signal int    `json:"signal,omitempty" doc:"of signal: its number on Linux"`
}

var upgrader = websocket.Upgrader{
	Subprotocols:    []string{terminalProtocol},
	WriteBufferPool: &sync.Pool{},
	CheckOrigin:     sameOrigin,
}

// openTerminal answers with a WebSocket. What is wrong is found before, as far as it can be.
func (c *rawCall) openTerminal(g *Gateway) error {
	if err := c.checkHandshake(); err != nil {
		return err
	}
	leave, ok := g.streams.enter()
	if !ok {
		return huma.Error503ServiceUnavailable(errClosing.Error())
	}
	defer leave()
	t := &terminal{call: c, gateway: g}
	if err := t.find(); err != nil {
		return err
	}
	conn, err := upgrader.Upgrade(c.w, c.r, nil)
	c.began = true
	if err != nil {
		t.abandon()
		return nil
	}
	t.conn = conn
	return t.serve()
}

// checkHandshake refuses what is no handshake of a terminal's WebSocket, before it has an effect.
func (c *rawCall) checkHandshake() error {
	key, err := base64.StdEncoding.DecodeString(c.r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case c.r.ProtoMajor != 1 || !websocket.IsWebSocketUpgrade(c.r):
		if c.r.ProtoMajor == 1 { // HTTP/2 has no such header, and clients break off an answer with it
			c.w.Header().Set("Upgrade", "websocket")
		}
		return huma.NewError(http.StatusUpgradeRequired, "a terminal is a WebSocket, over HTTP/1.1")
	case c.r.Header.Get("Sec-WebSocket-Version") != "13":
		c.w.Header().Set("Sec-WebSocket-Version", "13")
		return huma.NewError(http.StatusUpgradeRequired, "the WebSocket must be of version 13")
	case err != nil || len(key) != 16:
		return huma.Error400BadRequest("Sec-WebSocket-Key must be 16 bytes in base64")
	case !slices.Contains(websocket.Subprotocols(c.r), terminalProtocol):
		return huma.Error400BadRequest("the WebSocket must offer the subprotocol " + terminalProtocol)
	case !sameOrigin(c.r):
		return huma.Error403Forbidden("a page of another origin may not open a terminal")
	}
	return nil
}

// sameOrigin refuses pages of other origins. Programs that are no browsers name none.
func sameOrigin(r *http.Request) bool {
	origin := r.Header["Origin"]
	if len(origin) == 0 {
		return true
	}
	u, err := url.Parse(origin[0])
	return err == nil && len(origin) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// protocolToken returns the token that came as a subprotocol; "" if none did.
func protocolToken(protocols string) string {
	for name := range strings.SplitSeq(protocols, ",") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(name), tokenProtocol); ok {
			token, _ := base64.RawURLEncoding.DecodeString(text)
			return string(token)
		}
	}
	return ""
}

// find finds the process of a terminal, or starts it.
func (t *terminal) find() error {
	c := t.call
	size, err := c.terminalSize()
	if err != nil {
		return err
	}
	t.options.StdoutOffset, err = c.number("stdout_offset", math.MaxInt64)
	if err != nil {
		return err
	}
	t.id = c.query("exec_id")
	if t.id == "" {
		return t.start(size)
	}
	for _, name := range []string{"script", "args", "dir", "env", "idempotency_key"} {
		if c.queries.Has(name) {
			return invalid("with exec_id nothing is started: the query must not have %s", name)
		}
	}
	switch {
	case !c.queries.Has("stdout_offset"):
		t.options.Screen = size
	case c.queries.Has("cols") || c.queries.Has("rows"):
		t.size = size
	}
	now, err := stdin.Look(c, c.sandbox.Client, t.id)
	if err == nil && !now.Terminal {
		err = huma.Error409Conflict("the command has no terminal")
	}
	t.stdin = stdinOf(now)
	return err
}

func (c *rawCall) terminalSize() (*podapi.TerminalSize, error) {
	size := &podapi.TerminalSize{Rows: 24, Columns: 80}
	for name, to := range map[string]*int{"rows": &size.Rows, "cols": &size.Columns} {
		n, err := c.number(name, math.MaxUint16)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			*to = int(n)
		}
	}
	return size, nil
}

// start starts the process, and leaves it for serve to attach to.
func (t *terminal) start(size *podapi.TerminalSize) error {
	c := t.call
	id, err := c.execID()
	if err != nil {
		return err
	}
	ctx, started := c.starting(id != "")
	defer started()
	cmd := c.sandbox.Shell(ctx, c.query("script"))
	cmd.ID, cmd.Args, cmd.Dir, cmd.Env, cmd.Terminal = id, c.queries["args"], c.query("dir"), c.queries["env"], size
	if cmd.Script == "" && len(cmd.Args) == 0 {
		cmd.Script = loginShell
	}
	input, end := stdin.Open(nil)
	defer end() // it has been left then
	cmd.Stdin = input
	if err := cmd.Start(); err != nil {
		return err
	}
	started()
	actOf(c).runs(cmd.Process)
	_ = cmd.Process.Detach() // it may have ended
	t.id, t.own = cmd.ID, id == ""
	t.stdin = stdinOf(stdin.Of(c, cmd.Process))
	return nil
}

// abandon ends a process that nobody will know of.
func (t *terminal) abandon() {
	if t.own {
		t.call.abandon(t.id)
	}
}
