package e2b

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// hasty is an answer to a request whose body must be read by a time, if one is set.
type hasty struct {
	*httptest.ResponseRecorder
	by time.Time
}

func (h *hasty) SetReadDeadline(by time.Time) error { h.by = by; return nil }

// unhurried is a body that notes whether a read of it had a deadline.
type unhurried struct {
	of      *hasty
	read    bool
	hurried bool
}

func (b *unhurried) Read([]byte) (int, error) {
	b.read, b.hurried = true, b.hurried || !b.of.by.IsZero()
	return 0, io.EOF
}

func TestBodyForAServerMayBeSilent(t *testing.T) {
	b := newBox(t)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w := &hasty{ResponseRecorder: httptest.NewRecorder()}
	body := &unhurried{of: w}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", body)
	r.ContentLength = -1
	for name, value := range map[string]string{headerSandbox: b.id, headerPort: port, headerAccessToken: b.token} {
		r.Header.Set(name, value)
	}
	b.gateway.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !body.read || body.hurried {
		t.Errorf("%d %s, read: %t, with a deadline: %t", w.Code, w.Body, body.read, body.hurried)
	}
}
