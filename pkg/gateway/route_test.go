package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// portOf returns the port of a test's server, which is one in a local sandbox, too.
func portOf(server *httptest.Server) string {
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return port
}

// serve runs a server in the sandbox "web" of acme, and returns its port and its host.
func (d *door) serve(handler http.HandlerFunc) (port, host string) {
	d.Helper()
	server := httptest.NewServer(handler)
	d.Cleanup(server.Close)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"web"}`)
	return portOf(server), portOf(server) + "-web--acme.sandboxes.test"
}

// exchange sends the bytes of a request, and returns the answer.
func (d *door) exchange(request string) answer {
	d.Helper()
	conn := d.dial()
	defer conn.Close()
	fmt.Fprint(conn, request)
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		d.Fatalf("%q: %v", request, err)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		d.Fatalf("%q: %v", request, err)
	}
	return answer{r, string(text)}
}

func (d *door) dial() net.Conn {
	d.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(hung))
	return conn
}

// ask sends a request to a host, with these headers alone. It follows no redirect.
func (d *door) ask(method, host, path string, headers ...string) answer {
	d.Helper()
	request := method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n"
	for _, header := range headers {
		request += header + "\r\n"
	}
	return d.exchange(request + "\r\n")
}

const tokenA = "Authorization: Bearer a"

func TestRequestIsRoutedUnharmed(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Own", "kept")
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.RequestURI, body)
	})
	short := port + "-web.sandboxes.test"
	const path = "/a%2Fb/../c?x=1;y=%zz"
	for _, test := range []struct {
		headers []string
		want    string
	}{
		{[]string{"X-Sandbox-ID: web", "X-Sandbox-Port: " + port}, `POST ` + strings.TrimPrefix(d.url, "http://") + ` ` + path + ` body`},
		{[]string{"X-Sandbox-ID: web", "X-Sandbox-Port: " + port, "X-Sandbox-Namespace: acme"}, `POST ` + strings.TrimPrefix(d.url, "http://") + ` ` + path + ` body`},
		{[]string{"Host: " + host}, `POST ` + host + ` ` + path + ` body`},
		{[]string{"Host: " + host, "X-Sandbox-ID: other"}, `POST ` + host + ` ` + path + ` body`},
		{[]string{"Host: " + short}, `POST ` + short + ` ` + path + ` body`},
		{[]string{"Host: " + strings.ToUpper(host) + ".:80"}, `POST ` + strings.ToUpper(host) + `.:80 ` + path + ` body`},
	} {
		got := d.send("a", "POST", path, "body", test.headers...)
		if got.text != test.want || got.Header.Get("X-Own") != "kept" {
			t.Errorf("%q: the server got %s, want %s", test.headers, got.text, test.want)
		}
	}
	for _, path := range []string{
		"/", "/?", "//a//b", "/a/../../b/./c", "/%2e%2e/%2F", "/%00", `/"<>\^{}|[]`, "/\xff\xc3é", "/a?x=1;y=%zz&&=", "/a?podagent", "/a#b",
		"/%41%7e?%41", `/\evil.test`, "/api/v1/sandboxes", "/..",
	} {
		if got := d.ask("GET", host, path, tokenA); got.text != "GET "+host+" "+path+" " {
			t.Errorf("%q: the server got %q", path, got.text)
		}
	}
	if got := d.ask("OPTIONS", host, "*", tokenA); got.StatusCode != 200 {
		t.Errorf("OPTIONS *: %d", got.StatusCode)
	}
	if got := d.ask("GET", "other.test", "http://"+host+"/absolute?x", tokenA); got.text != "GET "+host+" /absolute?x " {
		t.Errorf("an absolute URL: the server got %q", got.text)
	}
}

// A space in a path, which HTTP/2 lets through, must not end it in a request of HTTP/1.
func TestSpaceOfHTTP2StaysInThePath(t *testing.T) {
	d := newDoor(t)
	_, host := d.serve(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto, r.RequestURI) })
	way := &http.Transport{Protocols: &http.Protocols{}}
	way.Protocols.SetUnencryptedHTTP2(true)
	defer way.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque, req.URL.RawQuery, req.Host = "/a HTTP/1.0", "b c", host
	req.Header.Set("X-Sandbox-Token", "a")
	r, err := way.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "HTTP/1.1/a%20HTTP/1.0?b%20c" {
		t.Errorf("the server got %s: %v", text, err)
	}
}

func TestRequestThatNamesNoServerIsRefused(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") })
	for _, test := range []struct {
		host    string
		headers []string
		status  int
	}{
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: 0"}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: 65536"}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: http"}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: 0" + port}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: " + port, "X-Sandbox-Port: " + port}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-ID: web", "X-Sandbox-Port: " + port}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: ../web"}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: "}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web--acme", "X-Sandbox-Port: " + port}, 400},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: " + port, "X-Sandbox-Namespace: other"}, 404},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: none"}, 404},
		{"gateway.test", []string{"X-Sandbox-ID: web", "X-Sandbox-Port: " + port}, 401},
		// A page of a browser would share the gateway's origin.
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: " + port, "Sec-Fetch-Site: same-origin"}, 403},
		{"gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: " + port, "Origin: http://gateway.test"}, 403},
		{port + "-web.sandboxes.test", []string{tokenA, "Sec-Fetch-Site: none"}, 403},
		{port + "-web.sandboxes.test", nil, 401},
		{host, nil, 401},
		{host, []string{"Authorization: Bearer wrong"}, 401},
		{host, []string{"X-Sandbox-Token: wrong"}, 401},
		{host, []string{"X-Sandbox-Token: wrong", tokenA}, 401},
		{port + "-none--acme.sandboxes.test", nil, 401},
		{port + "-web--none.sandboxes.test", nil, 401},
		// Another tenant's is not found.
		{host, []string{"Authorization: Bearer o"}, 404},
		{host, []string{"X-Sandbox-Token: o"}, 404},
		{host, []string{tokenA, "X-Sandbox-Token: o"}, 404},
		{port + "-web.sandboxes.test", []string{"Authorization: Bearer o"}, 404},
		{port + "-none--acme.sandboxes.test", []string{tokenA}, 404},
		// Below the domain there is nothing else, least of all the gateway.
		{"sandboxes.test", []string{tokenA}, 404},
		{"SANDBOXES.TEST.:80", []string{tokenA}, 404},
		{"www.sandboxes.test", []string{tokenA}, 404},
		{"a.b.sandboxes.test", []string{tokenA}, 404},
		{"a." + host, []string{tokenA}, 404},
		{"0-web--acme.sandboxes.test", []string{tokenA}, 404},
		{"0" + host, []string{tokenA}, 404},
		{"65536-web--acme.sandboxes.test", []string{tokenA}, 404},
		{port + "-web---acme.sandboxes.test", []string{tokenA}, 404},
		{port + "-web--acme--acme.sandboxes.test", []string{tokenA}, 404},
		{port + "-web--.sandboxes.test", []string{tokenA}, 404},
		{port + ".sandboxes.test", []string{tokenA}, 404},
		{"www.sandboxes.test..", []string{tokenA}, 404},
		{"www.sandboxes.test:80:80", []string{tokenA}, 404},
		{"www.sandboxes.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: " + port}, 404},
	} {
		got := d.ask("GET", test.host, "/api/v1/sandboxes", test.headers...)
		if got.StatusCode != test.status || got.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.text, `"detail":`) {
			t.Errorf("%s %q: %d %s, want %d", test.host, test.headers, got.StatusCode, got.text, test.status)
		}
	}
	if got := d.ask("CONNECT", host, host+":80", tokenA); got.StatusCode != 405 {
		t.Errorf("CONNECT: %d %s", got.StatusCode, got.text)
	}
	if got := d.ask("GET", "1-web--acme.sandboxes.test", "/", tokenA); got.StatusCode != 502 || !strings.Contains(got.text, "nothing listens at port 1") {
		t.Errorf("without a server: %d %s", got.StatusCode, got.text)
	}
}

func TestServerSeesNothingOfTheGateways(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(func(w http.ResponseWriter, r *http.Request) { _ = json.NewEncoder(w).Encode(r.Header) })
	spoofed := []string{
		"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Host: evil", "X-Forwarded-Proto: gopher", "X-Forwarded-Port: 1", "X-Forwarded-Prefix: /evil", "X-Real-IP: 1.2.3.4",
		"Forwarded: for=1.2.3.4", "Connection: X-Hop, close", "X-Hop: 1", "Keep-Alive: 1", "Proxy-Authorization: Basic x", "Proxy-Connection: close", "TE: gzip",
		"X-Sandbox-Link: x", "Cookie: a=1; __Host-podagent-link=x", "Cookie: __host-podagent-other=x;b=2", "Cookie:  =__Host-podagent-link=x ; c", "X-Sandbox-Own: 1",
	}
	for _, test := range []struct {
		name, host string
		headers    []string
		want       http.Header
	}{
		{"host", host, []string{tokenA}, http.Header{"Cookie": {"a=1; b=2; c"}, "X-Forwarded-Host": {host}, "X-Forwarded-Proto": {"https"}}},
		{"header", "gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: " + port, "X-Sandbox-Namespace: acme"}, http.Header{"X-Forwarded-Host": {"gateway.test"}, "X-Forwarded-Proto": {"http"}}},
		{"own authorization", host, []string{"Authorization: Basic own", "X-Sandbox-Token: a"}, http.Header{
			"Authorization": {"Basic own"}, "Cookie": {"a=1; b=2; c"}, "X-Forwarded-Host": {host}, "X-Forwarded-Proto": {"https"},
		}},
		{"own bearer", host, []string{"Authorization: Bearer own", "X-Sandbox-Token: a"}, http.Header{
			"Authorization": {"Bearer own"}, "Cookie": {"a=1; b=2; c"}, "X-Forwarded-Host": {host}, "X-Forwarded-Proto": {"https"},
		}},
		{"two tokens", host, []string{"Authorization: Bearer a", "X-Sandbox-Token: a"}, http.Header{"Cookie": {"a=1; b=2; c"}, "X-Forwarded-Host": {host}, "X-Forwarded-Proto": {"https"}}},
	} {
		answer := d.ask("GET", test.host, "/", append(test.headers, spoofed...)...)
		var got http.Header
		if err := json.Unmarshal([]byte(answer.text), &got); err != nil {
			t.Fatalf("%s: %d %s: %v", test.name, answer.StatusCode, answer.text, err)
		}
		test.want["X-Forwarded-For"], test.want["X-Sandbox-Own"] = []string{"127.0.0.1"}, []string{"1"}
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: the server got\n%v, want\n%v", test.name, got, test.want)
		}
	}
}

func TestAnswerReachesNothingBeyondItsHost(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(func(w http.ResponseWriter, r *http.Request) {
		for _, cookie := range []string{
			"own=1; Path=/; Domain=test; HttpOnly", "tossed=1;DOMAIN = sandboxes.test", "domain=1; Secure", "__Host-podagent-link=x; Path=/; Secure", " __HOST-podagent-x=1", "=__Host-podagent-link=x",
		} {
			w.Header().Add("Set-Cookie", cookie)
		}
		for name, value := range map[string]string{
			"Clear-Site-Data": `"cookies"`, "Alt-Svc": `h3=":443"`, "X-Accel-Redirect": "/secret", "X-Sendfile": "/etc/passwd", "Strict-Transport-Security": "max-age=1",
			"Service-Worker-Allowed": "/", "Connection": "X-Hop", "X-Hop": "1", "Proxy-Authenticate": "Basic", "Cache-Control": r.URL.RawQuery,
		} {
			w.Header().Set(name, value)
		}
	})
	for _, test := range []struct {
		name, host string
		headers    []string
		want       string
	}{
		{"host", host, []string{tokenA}, `map[Cache-Control:[public private] Content-Length:[0] Service-Worker-Allowed:[/] ` +
			`Set-Cookie:[own=1; Path=/; HttpOnly tossed=1 domain=1; Secure] Strict-Transport-Security:[max-age=1]]`},
		{"header", "gateway.test", []string{tokenA, "X-Sandbox-ID: web", "X-Sandbox-Port: " + port}, `map[Cache-Control:[public private] Content-Length:[0] Content-Security-Policy:[sandbox]]`},
	} {
		got := d.ask("GET", test.host, "/?public", test.headers...)
		got.Header.Del("Date")
		if text := fmt.Sprint(got.Header); text != test.want {
			t.Errorf("%s: the answer has\n%s, want\n%s", test.name, text, test.want)
		}
	}
	if got := d.ask("GET", host, "/?no-store", tokenA); got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control is %q", got.Header["Cache-Control"])
	}
}

// No page of another can frame what the gateway itself answers, or run it.
func TestGatewaysOwnAnswersAreNoPages(t *testing.T) {
	d := newDoor(t)
	for _, path := range []string{"/", "/openapi.json", "/api/v1/sandboxes", "/healthz"} {
		got := d.ask("GET", "gateway.test", path, "Origin: https://evil.test", "Service-Worker: script")
		policy := got.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "sandbox") || got.Header.Get("X-Content-Type-Options") != "nosniff" ||
			got.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(got.Header.Get("Content-Type"), "script") {
			t.Errorf("%s: %d %v", path, got.StatusCode, got.Header)
		}
	}
}
