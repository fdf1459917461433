package console

import (
	"errors"
	"net/http"
	"strings"
)

// passed are the headers of a browser's request that its call has, too. The others say nothing to the
// operations, or would choose another part of the gateway: a face of it, or a server in a sandbox.
var passed = []string{
	"Accept", "Content-Type", "Content-Length", "Idempotency-Key", "If-Match", "If-None-Match", "If-Range", "Range", "Origin", "User-Agent",
	"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions",
	"X-Forwarded-For",
}

// call makes a call of a session.
func (c *Console) call(w http.ResponseWriter, r *http.Request) {
	if err := checkSite(r); err != nil {
		refuse(w, http.StatusForbidden, "permission", err.Error())
		return
	}
	ctx, over := r.Context(), func() {}
	s, err := c.sessionOf(r)
	if err == nil {
		ctx, over, err = c.logouts.begin(ctx, s)
	}
	switch {
	case errors.Is(err, errNoSession):
		refuse(w, http.StatusUnauthorized, "unauthenticated", err.Error())
		return
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, "unavailable", "the gateway cannot tell sessions")
		return
	}
	defer over()
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "", "empty", "websocket":
	case "document": // a link of the page, which is to be saved
		w.Header().Set("Content-Disposition", "attachment")
	default: // what a sandbox has is no script, style or frame of the page
		refuse(w, http.StatusForbidden, "permission", errSite.Error())
		return
	}
	c.options.Gateway.ServeHTTP(w, pass(r.WithContext(ctx), s.Token))
}

// pass returns a request to the gateway in place of a browser's.
func pass(r *http.Request, token string) *http.Request {
	to := r.Clone(r.Context())
	to.Header = http.Header{}
	for _, name := range passed {
		if values, ok := r.Header[name]; ok {
			to.Header[name] = values
		}
	}
	if strings.HasPrefix(strings.ToLower(to.Header.Get("Content-Type")), "application/grpc") {
		to.Header.Del("Content-Type")
	}
	to.Header.Set("Authorization", "Bearer "+token)
	to.URL.Path = strings.TrimPrefix(r.URL.Path, pagePath)
	to.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, pagePath)
	return to
}
