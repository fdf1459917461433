package e2b

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
)

// isConnect reports whether a request is to one of envd's Connect services.
func isConnect(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/process.Process/") || strings.HasPrefix(r.URL.Path, "/filesystem.Filesystem/")
}

// refuseConnect answers a call of Connect before it is a handler's. A stream is answered by its last message:
// of another status than 200 clients read no body, and take 429 and 503 as if the sandbox were gone.
func refuseConnect(w http.ResponseWriter, r *http.Request, why gateway.Failure) {
	faces.SetRetryAfter(w.Header(), why.RetryAfter)
	code := codeOf(why.Status, why.Class)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != streamType || isGone(why.Class) {
		writeError(r.Context(), w, envdStatus(why), code, why.Text)
		return
	}
	w.Header().Set("Content-Type", streamType)
	_, _ = w.Write(lastMessage(connectFault{Code: code.String(), Message: why.Text}))
}

// connectFault is an error of Connect.
type connectFault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	notReached
}

// lastMessage returns the message of a stream that ends it by an error.
func lastMessage(why connectFault) []byte {
	text, _ := json.Marshal(map[string]connectFault{"error": why})
	b := bytes.NewBuffer([]byte{2}) // the flag of the last one
	_ = binary.Write(b, binary.BigEndian, uint32(len(text)))
	b.Write(text)
	return b.Bytes()
}
