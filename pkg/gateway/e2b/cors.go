package e2b

import (
	"net/http"
	"strings"
)

// Pages of any origin may call envd, and read what it answers: what they need for it is a token, which no
// browser has of its own. With one they may call servers, too: what they may read, the server says.

// isPreflight reports whether a browser asks whether a page may send a request.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// asksFor reports whether the page's request is to have a header.
func asksFor(r *http.Request, header string) bool {
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		if strings.EqualFold(strings.TrimSpace(name), header) {
			return true
		}
	}
	return false
}

// allowPages lets pages read the answer. It answers a browser that asks, and reports so.
func allowPages(w http.ResponseWriter, r *http.Request) (answered bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "*")
	if !isPreflight(r) {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Access-Control-Max-Age", "7200")
	w.WriteHeader(http.StatusNoContent)
	return true
}
