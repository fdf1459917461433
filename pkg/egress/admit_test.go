package egress

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestNarrowedPolicyHoldsWhereverItComesFrom(t *testing.T) {
	port := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	f := newFront(t, Options{}, "nowhere.test")
	p := policyOf(t, named("in.test", port), named("out.test", port))
	p.Only = policyOf(t, fmt.Sprintf("in.test:%d", port)).Allow
	f.SetPolicy(p)
	for host, want := range map[string]int{"in.test": http.StatusOK, "out.test": http.StatusForbidden} {
		if response, _ := f.connect(t, fmt.Sprintf("%s:%d", host, port)); response.StatusCode != want {
			t.Errorf("%s is answered by %s", host, response.Status)
		}
	}
}

// counted counts when it is closed.
type counted struct {
	*net.TCPConn
	closed *atomic.Int32
}

func (c counted) Close() error {
	c.closed.Add(1)
	return c.TCPConn.Close()
}

func TestConnectionsAreAdmittedByTheOwnerOfTheProxy(t *testing.T) {
	port := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	var begun, closed atomic.Int32
	f := newFront(t, Options{Admit: func(conn net.Conn) (net.Conn, error) {
		if begun.Add(1) > 1 {
			return nil, errors.New("the tenant has enough")
		}
		return counted{conn.(*net.TCPConn), &closed}, nil
	}}, named("a.test", port))
	if response, _ := f.connect(t, fmt.Sprintf("a.test:%d", port)); response.StatusCode != http.StatusOK {
		t.Errorf("the first is answered by %s", response.Status)
	}
	response, _ := f.connect(t, fmt.Sprintf("a.test:%d", port))
	if text := body(t, response.Body); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "the tenant has enough") {
		t.Errorf("the second is answered by %s %s", response.Status, text)
	}
	if d := f.decision(1); d.Verdict != Denied || d.Reason != "the tenant has enough" {
		t.Errorf("the decision is %+v", d)
	}
	if err := f.Close(); err != nil || closed.Load() != 1 {
		t.Errorf("%d connections were closed by the one in its place: %v", closed.Load(), err)
	}
}
