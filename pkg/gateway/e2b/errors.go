package e2b

import (
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
}

func writeFailure(w http.ResponseWriter, why gateway.Failure) {
	setRetryAfter(w.Header(), why.RetryAfter)
	writeJSON(w, why.Status, apiError{why.Status, why.Text})
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
