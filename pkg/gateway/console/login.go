package console

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Code lets one browser in without a token, once, and soon.
type Code struct {
	mu      sync.Mutex
	code    string
	token   string
	expires time.Time
}

// NewCode returns a code for one login as the tenant whose token it is.
func NewCode(token string) *Code {
	return &Code{code: rand.Text(), token: token, expires: time.Now().Add(codeTime)}
}

// LocalOrigin returns an origin for a gateway at a port of this machine, without TLS, which nobody can guess.
func LocalOrigin(port string) string {
	return "http://console-" + strings.ToLower(rand.Text()) + ".localhost:" + port
}

// URL is where the console is, at an origin.
func URL(origin string) string { return origin + pagePath }

// URL is where a browser logs in by the code, at an origin. A fragment is sent to no server, nor logged by one.
func (c *Code) URL(origin string) string { return URL(origin) + "#login=" + c.code }

// use returns the token, if this is the code, and for the first time.
func (c *Code) use(code string) (string, bool) {
	if c == nil {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.code == "" || subtle.ConstantTimeCompare([]byte(code), []byte(c.code)) != 1 || !time.Now().Before(c.expires) {
		return "", false
	}
	c.code = ""
	return c.token, true
}

// login answers a browser that has a token, or a code, with a session.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if !posted(w, r) {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(loginBodyTime))
	var in struct{ Token, Code string }
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, loginLimit))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err != nil || json.Unmarshal(body, &in) != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		refuse(w, http.StatusBadRequest, "invalid", "a login is a token, or a code, in JSON")
		return
	}
	if in.Code != "" {
		token, ok := c.options.Code.use(in.Code)
		if !ok {
			refuse(w, http.StatusUnauthorized, "unauthenticated", "the link has been used, or is too old: run \"orchestrator console\" again")
			return
		}
		in.Token = token
	}
	if len(in.Token) > tokenLimit {
		refuse(w, http.StatusUnprocessableEntity, "invalid", "the token is too long for a cookie")
		return
	}
	c.begin(w, r, in.Token)
}

// begin begins a session, if the gateway knows the token.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, token string) {
	answer := c.whoami(r, token)
	var who struct{ Tenant string }
	if answer.status != http.StatusOK || json.Unmarshal(answer.body.Bytes(), &who) != nil || who.Tenant == "" {
		answer.copyTo(w)
		return
	}
	err := c.logouts.prepare(r.Context(), who.Tenant)
	var keys [][32]byte
	if err == nil {
		keys, err = c.options.Gateway.LinkKeys.Derive(keyUse)
	}
	var sealed string
	if err == nil {
		sealed, err = newSession(who.Tenant, token).seal(keys[0])
	}
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "unavailable", "the gateway cannot make sessions")
		return
	}
	setCookie(w, sealed)
	answer.copyTo(w)
}

// whoami asks the gateway whose a token is, in place of a request. It counts for the tenant's rate, and observers are
// told of it.
func (c *Console) whoami(r *http.Request, token string) *answer {
	answer := &answer{header: http.Header{}, status: http.StatusOK}
	ask := pass(r, token)
	ask.Method, ask.URL.Path, ask.URL.RawPath, ask.URL.RawQuery = http.MethodGet, "/api/v1/whoami", "", ""
	ask.Body, ask.ContentLength = http.NoBody, 0
	c.options.Gateway.ServeHTTP(answer, ask)
	return answer
}

// logout ends the session of a browser. Whoever has copied the cookie cannot use it any more. It counts as a call, and is
// not refused if there were too many: whoever makes them would keep others from logging out. So a session costs one
// call and one message to the replicas to begin, and to end.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if !posted(w, r) {
		return
	}
	s, err := c.sessionOf(r)
	setCookie(w, "")
	if err == nil && !c.logouts.over(s) {
		c.logouts.end(s)
		c.whoami(r, s.Token)
		err = c.logouts.tell(r.Context(), s.Tenant)
	}
	if err != nil && !errors.Is(err, errNoSession) {
		refuse(w, http.StatusServiceUnavailable, "unavailable", "the session may go on at other gateways")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// posted refuses a request that is no POST of the console's own page.
func posted(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "unsupported", "this takes a POST")
		return false
	}
	if err := checkSite(r); err != nil {
		refuse(w, http.StatusForbidden, "permission", err.Error())
		return false
	}
	return true
}

// refuse answers with a problem, as the gateway's are.
func refuse(w http.ResponseWriter, status int, class, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "class": class, "detail": detail})
}

// answer is one of the gateway's that is small.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header               { return a.header }
func (a *answer) WriteHeader(status int)            { a.status = status }
func (a *answer) Write(p []byte) (int, error)       { return a.body.Write(p) }
func (a *answer) SetReadDeadline(_ time.Time) error { return nil }

func (a *answer) SetWriteDeadline(_ time.Time) error { return nil }

// copyTo answers with it.
func (a *answer) copyTo(w http.ResponseWriter) {
	for _, name := range []string{"Content-Type", "Retry-After", "X-Request-Id"} {
		if value := a.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}
