package e2b

import (
	"net/http"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
)

// isControl reports whether a path is one of the control plane.
func isControl(path string) bool {
	path, _ = strings.CutPrefix(path, "/v2")
	path, _ = strings.CutPrefix(path, "/v3")
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "sandboxes", "snapshots", "templates", "volumes", "secrets", "teams", "nodes":
		return true
	}
	return false
}

func (f *Face) serveControl(w http.ResponseWriter, r *http.Request, c *gateway.Call) {
	writeFailure(w, c.Failure(r.Context(), gateway.Fail(http.StatusNotImplemented, "unsupported", "this gateway does not serve it")))
}
