package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
)

// control is a request to the control plane.
type control struct {
	*gateway.Call
	face *Face
	w    http.ResponseWriter
	r    *http.Request
	name string // of the sandbox that the path has; "" if it has none
}

// controlOperations are what the control plane serves, in both generations of its clients: from 2.51 on
// they create and connect below /v2.
var controlOperations = []struct {
	pattern, name string
	serve         func(*control) error
}{
	{"POST /sandboxes", "create", func(c *control) error { return c.create(timeoutV1) }},
	{"POST /v2/sandboxes", "create", func(c *control) error { return c.create(timeoutV2) }},
	{"GET /sandboxes", "list", (*control).listRunning},
	{"GET /v2/sandboxes", "list", (*control).list},
	{"GET /sandboxes/{id}", "get", (*control).get},
	{"DELETE /sandboxes/{id}", "kill", (*control).kill},
	{"POST /sandboxes/{id}/timeout", "timeout", (*control).setTimeout},
	{"POST /sandboxes/{id}/pause", "pause", (*control).pause},
	{"POST /sandboxes/{id}/resume", "connect", func(c *control) error { return c.connect(timeoutV1) }},
	{"POST /sandboxes/{id}/connect", "connect", func(c *control) error { return c.connect(timeoutV1) }},
	{"POST /v2/sandboxes/{id}/connect", "connect", func(c *control) error { return c.connect(timeoutV2) }},
	{"GET /sandboxes/{id}/metrics", "metrics", (*control).metrics},
	{"POST /sandboxes/{id}/fork", "fork", (*control).fork},
	{"POST /sandboxes/{id}/snapshots", "snapshot", (*control).createSnapshot},
	{"GET /snapshots", "list-snapshots", (*control).listSnapshots},
	{"DELETE /templates/{template}", "delete-snapshot", (*control).deleteSnapshot},
}

// isControl reports whether a path is one of the control plane's, also of what is not served.
func isControl(path string) bool {
	for _, generation := range []string{"/v2", "/v3"} {
		if rest, ok := strings.CutPrefix(path, generation); ok {
			path = rest
			break
		}
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "sandboxes", "snapshots", "templates", "volumes", "secrets", "teams":
		return true
	}
	return false
}

type controlKey struct{}

// controlMux has the operations, for requests with a control in their contexts.
var controlMux = func() *http.ServeMux {
	mux := http.NewServeMux()
	for _, o := range controlOperations {
		mux.HandleFunc(o.pattern, func(_ http.ResponseWriter, r *http.Request) {
			c := r.Context().Value(controlKey{}).(*control)
			c.r = r
			if err := c.run(o.name, o.serve); err != nil {
				writeFailure(c.w, c.failure(err))
			}
		})
	}
	return mux
}()

// run begins an operation, and does it.
func (c *control) run(operation string, serve func(*control) error) error {
	if id := c.r.PathValue("id"); id != "" {
		name, tenant, ok := parseID(id)
		if !ok || tenant != "" && tenant != c.Tenant() {
			return errNoSandbox // whatever there is
		}
		c.name = name
	}
	switch operation {
	case "create", "fork", "snapshot", "delete-snapshot": // which say more than the path does
	default:
		if err := c.begin(operation, c.name); err != nil {
			return err
		}
	}
	return serve(c)
}

func (c *control) begin(operation, name string, args ...string) error {
	return c.Begin(c.r.Context(), "e2b.sandboxes/"+operation, name, gateway.Detail{Args: args})
}

var (
	errNoSandbox   = gateway.Fail(http.StatusNotFound, "no_sandbox", "there is no such sandbox")
	errUnsupported = gateway.Fail(http.StatusNotImplemented, "unsupported",
		"this is not supported: sandboxes of this gateway have no volumes and secrets of E2B's, and rules for the network only from their create, and their templates are made by its operator")
)

func (f *Face) serveControl(w http.ResponseWriter, r *http.Request, call *gateway.Call) {
	c := &control{Call: call, face: f, w: w, r: r}
	if _, pattern := controlMux.Handler(r); pattern == "" {
		writeFailure(w, c.failure(errUnsupported))
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), controlKey{}, c))
	controlMux.ServeHTTP(w, r)
}

// failure describes an error as the control plane does.
func (c *control) failure(err error) gateway.Failure {
	why := c.Failure(c.r.Context(), err)
	switch why.Class {
	case "no_sandbox", "ended", "gone":
		why.Status = http.StatusNotFound
	case "not_kept", "no_lifetime":
		why.Status = http.StatusBadRequest // 409 would say that it is paused already
	case "deadline":
		if why.Status == http.StatusConflict { // the hard one of its pod, not that of a call that took too long
			why.Status = http.StatusBadRequest
		}
	}
	if why.Status == http.StatusUnprocessableEntity || why.Status == http.StatusRequestEntityTooLarge {
		why.Status = http.StatusBadRequest
	}
	return why
}

// body reads the request's body. One that is empty changes nothing. What this gateway has no name for is
// ignored: the clients' next version may send it.
func (c *control) body(v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, controlBodyLimit))
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return faces.BadRequest("the body has more than %d bytes", over.Limit)
	}
	if err != nil {
		return faces.BadRequest("the body cannot be read: %v", err)
	}
	if len(data) == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return faces.BadRequest("the Content-Type must be application/json")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return faces.BadRequest("the body: %v", err)
	}
	return nil
}
