package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// answer is what a client is told of a try that came to nothing.
type answer struct {
	status int
	phrase string // one line in ASCII: all that many programs show of an answer to CONNECT
	body   string // text that a model can act on
}

// answerTo returns the answer for an error of a try.
func answerTo(err error) answer {
	var r *refusal
	var u *unreachable
	var n notNow
	switch {
	case errors.As(err, &n):
		return n.answer()
	case errors.As(err, &r):
		return r.answer()
	case errors.As(err, &u):
		return u.answer()
	}
	return answer{http.StatusBadGateway, "Egress failed", "The host was reached, and the request failed there.\n"}
}

func (r *refusal) answer() answer {
	a := answer{status: http.StatusForbidden, phrase: "Egress denied: " + r.told()}
	var b strings.Builder
	fmt.Fprintf(&b, "Egress denied: %s.\n", r.told())
	if r.rules != "" {
		fmt.Fprintf(&b, "Allowed here: %s\n", r.rules)
	}
	if rule := r.wanted(); rule != "" {
		ask := fmt.Sprintf("ask the user to allow %s (--allow-host %[1]s)", rule)
		a.phrase += "; " + ask
		fmt.Fprintf(&b, "Trying again does not help. If the task needs it, %s.\n", ask)
	}
	a.body = b.String()
	return a
}

func (n notNow) answer() answer {
	text := "Egress refused: " + n.Error()
	return answer{http.StatusServiceUnavailable, text, text + ".\n"}
}

func (u *unreachable) answer() answer {
	status := http.StatusBadGateway
	if errors.Is(u.cause, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	return answer{status, "Egress failed: " + u.text, "The host is allowed, and was not reached: " + u.text + ".\n"}
}

// statusHeader says, by RFC 9209, that an answer is the proxy's and not the host's.
func (a answer) statusHeader() string {
	switch a.status {
	case http.StatusForbidden:
		return "podagent; error=http_request_denied"
	case http.StatusGatewayTimeout:
		return "podagent; error=connection_timeout"
	case http.StatusBadGateway:
		return "podagent; error=destination_unavailable"
	}
	return "podagent; error=http_protocol_error"
}

// write answers a request.
func (a answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Proxy-Status", a.statusHeader())
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(a.status)
	_, _ = w.Write([]byte(a.body)) // the client may have gone
}

// raw returns the answer as bytes, which end the connection.
func (a answer) raw() []byte {
	phrase := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, a.phrase)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nProxy-Status: %s\r\nConnection: close\r\n\r\n%s",
		a.status, phrase, len(a.body), a.statusHeader(), a.body)
}
