package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// belowDomain are the hosts that are never the gateway's.
var belowDomain = regexp.MustCompile(`(?i)^(.*\.)?sandboxes\.test\.*(:.*)?$`)

// panics collects what a server says about them.
type panics struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *panics) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Contains(line, []byte("panic")) {
		p.text.Write(line)
	}
	return len(line), nil
}

func (p *panics) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// FuzzRoute sends requests whose every part may be odd. {PORT} stands for the port of a server in
// the sandbox "web" of acme, whose token is a.
func FuzzRoute(f *testing.F) {
	l := launchertest.Local(f)
	sandbox, err := l.Launch(f.Context(), launcher.Spec{ID: "acme.web"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { sandbox.Close() })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Served", "yes")
		if strings.Contains(strings.ToLower(fmt.Sprint(r.Header["Authorization"])), "bearer a]") || r.Header["X-Sandbox-Token"] != nil || r.Header["X-Sandbox-Id"] != nil ||
			strings.Contains(fmt.Sprint(r.Header["Cookie"]), "__Host-podagent") {
			w.Header().Set("X-Leak", fmt.Sprint(r.Header))
		}
	}))
	f.Cleanup(server.Close)
	port := portOf(server)
	var said panics
	g := gateway.New(gateway.Options{Launcher: l, Tenants: gateway.OneTenant{Name: "acme", Token: "a"}, Domain: "sandboxes.test"})
	front := httptest.NewUnstartedServer(g)
	front.Config.DisableGeneralOptionsHandler = true // OPTIONS * is for the server
	front.Config.ErrorLog = log.New(&said, "", 0)
	front.Start()
	f.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		g.Close()
	})

	const host = "{PORT}-web--acme.sandboxes.test"
	f.Add("GET", "/", host, "X-Sandbox-Token", "a")
	f.Add("GET", "/a%2Fb/..//./%00?x=;&podagent_link=x", "{PORT}-web.sandboxes.test", "Authorization", "Bearer a")
	f.Add("POST", `/\"<>^|{}`, "gateway.test", "X-Sandbox-Token", "a\r\nX-Sandbox-ID: web\r\nX-Sandbox-Port: {PORT}")
	f.Add("GET", "//evil/%", host+".:80:", "Connection", "Upgrade, X-Sandbox-Token\r\nUpgrade: \x7f\r\nX-Sandbox-Token: a")
	f.Add("HEAD", "http://"+host+"/", "gateway.test", "Authorization", "Basic x\r\nAuthorization: bearer  a\r\nX-Sandbox-Token: a")
	f.Add("CONNECT", host+":80", host, "X-Sandbox-Token", "a")
	f.Add("OPTIONS", "*", host, "Cookie", "__Host-podagent-link=x; =__host-podagent\r\nX-Sandbox-Token: a")
	f.Add("POST", "/", "0"+host, "Transfer-Encoding", "chunked\r\nTrailer: Authorization\r\nX-Sandbox-Token: a\r\n\r\n1\r\na\r\n0\r\nAuthorization: x")
	f.Add("PRI", "*", "a.b.sandboxes.test", "Expect", "100-continue\r\nContent-Length: 5")
	f.Add("GET", "/openapi.json", "SANDBOXES.TEST", "Sec-Fetch-Site", "none")
	f.Add("GET", "/api/v1/sandboxes/%2e%2e/x", "[::1]:80", "X-Sandbox-Link", strings.Repeat("A", 75))
	f.Add("GET", "/", "sandboxes.test", "Expect", "00")
	f.Add("GET", "/", "-web--acme.sandboxes.test", "TE", "trailers\r\nX-Sandbox-ID: ../web")
	f.Fuzz(func(t *testing.T, method, path, host, name, value string) {
		text := strings.ReplaceAll(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\nConnection: close\r\n\r\n", method, path, host, name, value), "{PORT}", port)
		sent, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			sent = nil // what is no request gets no further than the standard library
		}
		got, ok := sendBytes(t, front.Listener.Addr().String(), text)
		if said := said.String(); said != "" {
			t.Fatalf("%q: %s", text, said)
		}
		if !ok {
			return
		}
		served, refused := got.Header.Get("X-Served") != "", got.Header.Get("Cache-Control") == "no-store" && got.Header.Get("Content-Type") == "application/problem+json"
		switch {
		case got.StatusCode == 500 || got.StatusCode > 504:
			t.Errorf("%q: %d %s", text, got.StatusCode, got.text)
		case got.Header.Get("X-Leak") != "":
			t.Errorf("%q: the server got %s", text, got.Header.Get("X-Leak"))
		case sent == nil && served:
			t.Errorf("%q is served", text)
		case sent == nil || got.StatusCode == http.StatusExpectationFailed: // by the standard library
		case belowDomain.MatchString(sent.Host) && !served && !refused && !strings.HasPrefix(got.Header.Get("Content-Type"), "text/plain"):
			t.Errorf("%q: the gateway itself answers: %d %v %s", text, got.StatusCode, got.Header, got.text)
		case served && !belowDomain.MatchString(sent.Host) && sent.Header["X-Sandbox-Id"] == nil:
			t.Errorf("%q is served", text)
		case served && sent.Header["X-Sandbox-Token"] == nil && !strings.Contains(strings.ToLower(fmt.Sprint(sent.Header["Authorization"])), "bearer"):
			t.Errorf("%q is served without a token", text)
		}
	})
}

// sendBytes sends bytes, and returns the answer, if there is one.
func sendBytes(t *testing.T, address, text string) (answer, bool) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(hung))
	_, _ = io.WriteString(conn, text)
	_ = conn.(*net.TCPConn).CloseWrite()
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		if err, ok := err.(net.Error); ok && err.Timeout() {
			t.Errorf("%q: no answer", text)
		}
		return answer{}, false
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return answer{r, string(body)}, err == nil
}
