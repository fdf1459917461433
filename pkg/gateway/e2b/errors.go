package e2b

import (
	"context"
	"net/http"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
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
	faces.SetRetryAfter(w.Header(), why.RetryAfter)
	faces.WriteJSON(w, why.Status, apiError{why.Status, why.Text, of})
}

func writeFailure(w http.ResponseWriter, why gateway.Failure) {
	writeMissed(w, why, notReached{})
}
