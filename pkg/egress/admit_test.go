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

// What keeps clients from trying counts for what they ask for on connections that are open, too: each
// request by HTTP, and each one in opened TLS, of HTTP/1 and HTTP/2.
func TestOwnerOfTheProxyIsAskedBeforeEachTry(t *testing.T) {
	var unrecorded atomic.Bool
	mayTry := func() error {
		if unrecorded.Load() {
			return errors.New("nothing can be recorded")
		}
		return nil
	}
	var reached atomic.Int32
	handler := func(w http.ResponseWriter, _ *http.Request) { reached.Add(1); fmt.Fprint(w, "hello") }
	plain := serveHTTP(t, handler)
	world := mustCA(t, "world")
	w := &opened{tlsOpener: &tlsOpener{}, world: world, hosts: map[string]string{}}
	port := w.host(t, theHost, http.HandlerFunc(handler)).Listener.Addr().(*net.TCPAddr).Port
	s := theSecret(t)
	s.Hosts = mustRules(t, fmt.Sprintf("%s:%d", theHost, port))
	o, err := newTLSOpener(Options{Secrets: []Secret{s}, Roots: trusting(world)})
	if err != nil {
		t.Fatal(err)
	}
	f := newFrontThat(t, Options{MayTry: mayTry}, o, named("a.test", plain), named(theHost, port))
	for _, url := range []string{fmt.Sprintf("http://a.test:%d/", plain), fmt.Sprintf("https://%s:%d/", theHost, port)} {
		for _, http2 := range []bool{false, true} {
			client := f.client(t, "http", trusting(o.ca))
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = http2
			for _, refused := range []bool{false, true, false} {
				unrecorded.Store(refused)
				before := reached.Load()
				answer, text := do(t, client, get(t, url))
				want := http.StatusOK
				if refused {
					want = http.StatusServiceUnavailable
				}
				if answer.StatusCode != want || refused && !strings.Contains(text, "nothing can be recorded") || (reached.Load() > before) == refused {
					t.Errorf("%s by HTTP/%d, refused=%v: %s %q", url, answer.ProtoMajor, refused, answer.Status, text)
				}
			}
		}
	}
	unrecorded.Store(true)
	if response, _ := f.connect(t, fmt.Sprintf("a.test:%d", plain)); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("CONNECT is answered by %s", response.Status)
	}
}

// The numbers of tries of one far end are not those of the next.
func TestNumbersOfTriesDoNotBeginAnew(t *testing.T) {
	seen := map[uint64]bool{}
	for range 2 {
		f := newFront(t, Options{})
		f.connect(t, "a.test:80")
		if id := f.decision(0).ID; seen[id] || id >= 1<<53 {
			t.Errorf("a try has the number %d", id)
		} else {
			seen[id] = true
		}
	}
}
