package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// portOf returns the port of a test's server, which is one in a local sandbox, too.
func portOf(server *httptest.Server) string {
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return port
}

func TestRequestIsRoutedUnharmed(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"web"}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Own", "kept")
		fmt.Fprintf(w, "%s %s %s %q %q %q", r.Method, r.Host, r.RequestURI, r.Header["Authorization"], r.Header["X-Sandbox-Token"], r.Header["X-Sandbox-Id"])
	}))
	defer server.Close()
	port := portOf(server)
	host := port + "-web.sandboxes.test"
	for _, test := range []struct {
		headers []string
		want    string
	}{
		{[]string{"X-Sandbox-ID: web", "X-Sandbox-Port: " + port}, `POST ` + strings.TrimPrefix(d.url, "http://") + ` /a%2Fb/../c?x=1;y=%zz [] [] []`},
		{[]string{"Host: " + host}, `POST ` + host + ` /a%2Fb/../c?x=1;y=%zz [] [] []`},
		{[]string{"Host: " + host, "X-Sandbox-Token: a", "Authorization: Basic own"}, `POST ` + host + ` /a%2Fb/../c?x=1;y=%zz ["Basic own"] [] []`},
	} {
		got := d.send("a", "POST", "/a%2Fb/../c?x=1;y=%zz", "", test.headers...)
		if got.text != test.want || got.Header.Get("X-Own") != "kept" {
			t.Errorf("%q: the server got %s, want %s", test.headers, got.text, test.want)
		}
	}
	for _, headers := range [][]string{
		{"X-Sandbox-ID: web", "X-Sandbox-Port: 0"},
		{"X-Sandbox-ID: web", "X-Sandbox-Port: 65536"},
		{"X-Sandbox-ID: web", "X-Sandbox-Port: http"},
		{"X-Sandbox-ID: ../web"},
	} {
		if got := d.send("a", "GET", "/", "", headers...); got.StatusCode != 400 {
			t.Errorf("%q: %d %s", headers, got.StatusCode, got.text)
		}
	}
	server.Close()
	if got := d.send("a", "GET", "/", "", "Host: "+host); got.StatusCode != 502 {
		t.Errorf("without a server: %d %s", got.StatusCode, got.text)
	}
}

// What a server switches to flows both ways, as a WebSocket does.
func TestConnectionThatIsUpgradedFlowsBothWays(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"web"}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, err := buffered.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(conn, "echo ", line)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s-web.sandboxes.test\r\nAuthorization: Bearer a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", portOf(server))
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the answer is %v: %v", answer, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := r.ReadString('\n'); line != "echo hello\n" || err != nil {
		t.Errorf("got %q: %v", line, err)
	}
}
