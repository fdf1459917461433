package agentsandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
)

// The ports of the runtimes: the Python runtime's, and those of sandboxd for REST and gRPC.
const (
	legacyPort   = 8888
	sandboxdPort = 8080
	grpcPort     = 9090
)

// route is where a request goes.
type route struct {
	id, uid string
	port    int
	path    string // at the port, as it is encoded
	timeout time.Duration
	byPath  bool
	begun   bool // observers know what is done
}

// routeOf returns where a request goes. With an error it says as much as is known.
func (f *Face) routeOf(r *http.Request, tenant string) (*route, error) {
	to := &route{path: r.URL.EscapedPath()}
	namespace, port := r.Header.Get(headerNamespace), cmp.Or(r.Header.Get(headerPort), strconv.Itoa(legacyPort))
	if rest, ok := strings.CutPrefix(to.path, pathPrefix); ok && r.Header[headerID] == nil {
		parts := strings.SplitN(rest, "/", 4)
		if len(parts) < 3 {
			return to, faces.BadRequest("the path must be %sNAMESPACE/ID/PORT/...", pathPrefix)
		}
		parts = append(parts, "")
		namespace, to.id, port, to.path, to.byPath = parts[0], parts[1], parts[2], "/"+parts[3], true
	} else {
		to.id, to.uid = r.Header.Get(headerID), r.Header.Get(headerUID)
	}
	return to, errors.Join(to.setPort(port), to.setTimeout(r.Header.Get(headerTimeout)), f.check(to, r, namespace, tenant))
}

// setPort sets the port, which has one way of being written.
func (to *route) setPort(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '0' {
		return faces.BadRequest("Invalid port format.")
	}
	to.port = int(n)
	if to.byPath && !to.isRuntime() {
		return gateway.Fail(http.StatusNotFound, "unsupported", fmt.Sprintf("a path leads to a runtime alone, at the ports %d, %d and %d: a server is reached by the headers, or by its host", legacyPort, sandboxdPort, grpcPort))
	}
	return nil
}

// setTimeout sets how long the request may take, in seconds.
func (to *route) setTimeout(text string) error {
	if text == "" {
		return nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(seconds) || seconds <= 0 {
		return faces.BadRequest("Invalid timeout format: %s is a number of seconds above 0.", headerTimeout)
	}
	to.timeout = max(1, time.Duration(min(seconds, longestTimeout)*float64(time.Second))) // 0 is none
	return nil
}

// check says what is wrong with the names of a request.
func (f *Face) check(to *route, r *http.Request, namespace, tenant string) error {
	for _, name := range []string{headerID, headerNamespace, headerPort, headerUID, headerTimeout} {
		if len(r.Header[name]) > 1 {
			return faces.BadRequest("%s is there more than once.", name)
		}
	}
	switch {
	case to.id == "":
		return faces.BadRequest("X-Sandbox-ID header is required.")
	case len(validation.IsDNS1123Label(to.id)) > 0:
		return faces.BadRequest("Invalid sandbox ID format.")
	case namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0:
		return faces.BadRequest("Invalid namespace format.")
	case namespace != "" && f.Namespace != "" && namespace != f.Namespace && namespace != tenant:
		return gateway.Fail(http.StatusNotFound, "no_sandbox", "there is no sandbox of this name in this namespace")
	}
	return nil
}

// isRuntime reports whether the port is one of the runtimes, which the gateway answers for.
func (to *route) isRuntime() bool {
	return to.port == legacyPort || to.port == sandboxdPort || to.port == grpcPort
}

// within bounds how long a request takes, if its client says that.
func (to *route) within(r *http.Request) (*http.Request, func()) {
	if to.timeout == 0 {
		return r, func() {}
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), to.timeout, errOvertime)
	return r.WithContext(ctx), cancel
}

var errOvertime = fmt.Errorf("the time of the request (%s) is over: %w", headerTimeout, context.DeadlineExceeded)

// name returns the path below a prefix, decoded.
func (to *route) name(prefix string) (string, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(to.path, prefix))
	if err != nil {
		return "", faces.BadRequest("the path is not encoded as URLs are")
	}
	return name, nil
}
