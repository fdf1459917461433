package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
)

// apiError is the body of an answer to a request that failed. E2B's clients read code, whatever the
// status.
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	notReached
}

// notReached says which sandbox, and which port of it, a request did not reach: what the proxy in front of E2B's
// sandboxes says in a body of 502. Elsewhere it is empty.
type notReached struct {
	SandboxID string `json:"sandboxId,omitempty"`
	Port      int    `json:"port,omitempty"`
}

// missed returns what an answer of this status says of the sandbox that the request was to.
func missed(ctx context.Context, status int) notReached {
	id, _ := ctx.Value(sandboxIDKey{}).(string)
	if status != http.StatusBadGateway {
		return notReached{}
	}
	return notReached{SandboxID: id}
}

// sandboxIDKey is that of a context's sandbox id, as the caller has it.
type sandboxIDKey struct{}

func withSandboxID(r *http.Request, to gateway.Address) *http.Request {
	id := to.Sandbox
	if to.Tenant != "" {
		id = idOf(to.Tenant, to.Sandbox)
	}
	return r.WithContext(context.WithValue(r.Context(), sandboxIDKey{}, id))
}

// writeMissed answers a request that did not reach a server in a sandbox, or what stands for its envd.
func writeMissed(w http.ResponseWriter, why gateway.Failure, of notReached) {
	setRetryAfter(w.Header(), why.RetryAfter)
	writeJSON(w, why.Status, apiError{why.Status, why.Text, of})
}

func writeFailure(w http.ResponseWriter, why gateway.Failure) {
	writeMissed(w, why, notReached{})
}

func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(d/time.Second))))
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// badRequest is the error of a request that says something wrong.
func badRequest(format string, args ...any) error {
	return gateway.Fail(http.StatusBadRequest, "invalid", fmt.Sprintf(format, args...))
}
