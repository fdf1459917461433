package agentsandbox

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// call is a request to a runtime by HTTP.
type call struct {
	*gateway.Call
	*route
	w         http.ResponseWriter
	r         *http.Request
	operation string
	began     bool // the answer has, so that an error can only cut it off
}

// verb is what a runtime does for requests with a method and a path. A path that ends with a slash is the
// beginning of one.
type verb struct {
	method, path, operation string
	do                      func(*call) error
}

// verbs are those of both runtimes, which have no path in common.
var verbs = []verb{
	{http.MethodGet, "/", "health", alive},
	{http.MethodPost, "/execute", "execute", execute},
	{http.MethodPost, "/upload", "upload", uploadLegacy},
	{http.MethodGet, "/download/", "download", download},
	{http.MethodGet, "/list/", "list", listLegacy},
	{http.MethodGet, "/exists/", "exists", exists},
	{http.MethodGet, filesPath, "files/Get", getFile},
	{http.MethodPut, filesPath, "files/Put", putFile},
	{http.MethodDelete, filesPath, "files/Delete", deleteFile},
	{http.MethodGet, "/v1/health", "health", healthV1},
	{http.MethodGet, "/v1/metadata", "metadata", metadataV1},
}

const filesPath = "/v1/files/"

// serveHTTP answers for a runtime.
func serveHTTP(w http.ResponseWriter, r *http.Request, c *gateway.Call, to *route) {
	in := &call{Call: c, route: to, w: w, r: r, operation: "none"}
	do, err := in.find()
	if err == nil {
		err = do(in)
	}
	switch {
	case err == nil:
	case in.began:
		c.Failure(r.Context(), err) // it is noted
		panic(http.ErrAbortHandler)
	default:
		for _, name := range []string{"ETag", "Last-Modified", "Content-Disposition"} {
			w.Header().Del(name) // they are of the file
		}
		to.toldFailed(r.Context(), c, in.operation)
		refuse(w, r, to, c.Failure(r.Context(), overtime(r.Context(), err)))
	}
}

// overtime returns that the time of a request is over, if it is.
func overtime(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errOvertime) {
		return gateway.Fail(http.StatusGatewayTimeout, "deadline", errOvertime.Error())
	}
	return err
}

// find returns what is to be done.
func (c *call) find() (func(*call) error, error) {
	missing := gateway.Fail(http.StatusNotFound, "unsupported", "the runtime has no such path")
	for _, v := range verbs {
		if c.path != v.path && (v.path == "/" || v.path[len(v.path)-1] != '/' || !strings.HasPrefix(c.path, v.path)) {
			continue
		}
		if v.method == c.r.Method || v.method == http.MethodGet && c.r.Method == http.MethodHead {
			c.operation = v.operation
			return v.do, nil
		}
		missing = gateway.Fail(http.StatusMethodNotAllowed, "unsupported", "the runtime has no such method for this path")
	}
	return nil, missing
}

// on begins an operation, and does it with the open sandbox, which it wakes if it sleeps.
func (c *call) on(d gateway.Detail, do func(*launcher.Sandbox) error) error {
	if err := c.begin(c.r.Context(), c.Call, c.operation, d); err != nil {
		return err
	}
	return c.Use(c.r.Context(), c.id, true, do)
}

// begin says what a request does, before it has an effect.
func (to *route) begin(ctx context.Context, c *gateway.Call, operation string, d gateway.Detail) error {
	to.begun = true
	return c.Begin(ctx, operationPrefix+operation, to.id, d)
}

// toldFailed says what a request would have done that failed before it began.
func (to *route) toldFailed(ctx context.Context, c *gateway.Call, operation string) {
	if !to.begun {
		_ = to.begin(ctx, c, operation, gateway.Detail{})
	}
}

// operationPrefix begins the names of the operations.
const operationPrefix = "agent-sandbox."

// onFile is on for an operation on the file that the path names after a prefix.
func (c *call) onFile(prefix string, do func(s *launcher.Sandbox, name string) error) error {
	named, err := c.name(prefix)
	if err != nil {
		return err
	}
	return c.on(gateway.Detail{Paths: []string{named}}, func(s *launcher.Sandbox) error {
		name, err := within(s.Workdir, named)
		if err != nil {
			return err
		}
		return do(s, name)
	})
}

// within returns a path below the root, which is where all paths begin: an absolute one, too, unless it has
// the root in it. One that leads out of the root by its dots is refused.
func within(root, name string) (string, error) {
	root = path.Clean(root)
	name = path.Clean(name) // "" is "."
	if rest, ok := strings.CutPrefix(name, root); ok && (rest == "" || rest[0] == '/' || root == "/") {
		name = rest
	}
	full := path.Join(root, name)
	if full != root && !strings.HasPrefix(full, strings.TrimSuffix(root, "/")+"/") {
		return "", gateway.Fail(http.StatusForbidden, "permission", "path traversal outside sandbox root is forbidden")
	}
	return full, nil
}
