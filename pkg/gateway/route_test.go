package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
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

// What a server switches to flows both ways, and either side can end its own.
func TestConnectionThatIsUpgradedFlowsBothWays(t *testing.T) {
	d := newDoor(t)
	_, host := d.serve(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nSet-Cookie: __Host-podagent-link=x\r\n\r\n")
		line, err := buffered.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(conn, "echo ", line)
	})
	conn := d.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", host)
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || answer.Header["Set-Cookie"] != nil {
		t.Fatalf("the answer is %v: %v", answer, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := r.ReadString('\n'); line != "echo hello\n" || err != nil {
		t.Errorf("got %q: %v", line, err)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after the server has closed: %v", err)
	}
}

func TestWebSocket(t *testing.T) {
	d := newDoor(t)
	ended := make(chan error, 1)
	port, host := d.serve(func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{Subprotocols: []string{"b"}, EnableCompression: true}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			kind, data, err := conn.ReadMessage()
			if err != nil {
				ended <- err
				return
			}
			if err := conn.WriteMessage(kind, data); err != nil {
				t.Error(err)
			}
		}
	})
	for name, header := range map[string]http.Header{
		"host":   {"Host": {host}, "Authorization": {"Bearer a"}},
		"header": {"X-Sandbox-Id": {"web"}, "X-Sandbox-Port": {port}, "Authorization": {"Bearer a"}},
	} {
		dialer := &websocket.Dialer{Subprotocols: []string{"a", "b"}, EnableCompression: true}
		conn, answer, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(d.url, "http")+"/ws?x=1", header)
		if err != nil {
			t.Fatalf("%s: %v %v", name, answer, err)
		}
		if conn.Subprotocol() != "b" {
			t.Errorf("%s: the protocol is %q", name, conn.Subprotocol())
		}
		for _, size := range []int{0, 1, 200 << 10} {
			want := strings.Repeat("x", size)
			if err := conn.WriteMessage(websocket.BinaryMessage, []byte(want)); err != nil {
				t.Fatal(err)
			}
			if kind, got, err := conn.ReadMessage(); kind != websocket.BinaryMessage || string(got) != want || err != nil {
				t.Fatalf("%s: %d bytes of kind %d came back as %d: %v", name, size, kind, len(got), err)
			}
		}
		if err := conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(4000, "done")); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !websocket.IsCloseError(err, 4000) {
			t.Errorf("%s: the server's connection ended with %v", name, err)
		}
		conn.Close()
	}
	conn, answer, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(d.url, "http"), http.Header{"Host": {host}, "Authorization": {"Bearer a"}})
	if err != nil {
		t.Fatal(answer, err)
	}
	conn.NetConn().Close()
	if err := <-ended; err == nil {
		t.Error("the server does not know that the client has left")
	}
}

// The server's answer comes while the request is still being sent, in HTTP/1 too.
func TestBodiesStreamBothWaysAtOnce(t *testing.T) {
	d := newDoor(t)
	_, host := d.serve(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		w.Header().Set("Trailer", "X-Lines")
		lines := bufio.NewScanner(r.Body)
		n := 0
		for ; lines.Scan(); n++ {
			fmt.Fprintf(w, "echo %s %d\n", lines.Text(), r.ContentLength)
			_ = c.Flush()
		}
		w.Header().Set("X-Lines", fmt.Sprint(n, r.Trailer))
	})
	body, send := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", d.url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.Trailer = host, http.Header{"X-End": {"here"}}
	req.Header.Set("X-Sandbox-Token", "a")
	go fmt.Fprintln(send, "one")
	r, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	got := bufio.NewReader(r.Body)
	for _, line := range []string{"one", "two"} {
		if line == "two" {
			fmt.Fprintln(send, line)
		}
		if text, err := got.ReadString('\n'); text != "echo "+line+" -1\n" || err != nil {
			t.Fatalf("got %q: %v", text, err)
		}
	}
	send.Close()
	if rest, err := io.ReadAll(got); len(rest) > 0 || err != nil {
		t.Errorf("then came %q: %v", rest, err)
	}
	if trailer := r.Trailer.Get("X-Lines"); trailer != "2 map[X-End:[here]]" {
		t.Errorf("the trailer is %q", trailer)
	}
}

func TestServerMayAnswerBeforeItHasReadTheRequest(t *testing.T) {
	d := newDoor(t)
	_, host := d.serve(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	})
	got := d.exchange("POST / HTTP/1.1\r\nHost: " + host + "\r\n" + tokenA + "\r\nContent-Length: 1000000\r\n\r\nsome")
	if got.StatusCode != http.StatusRequestEntityTooLarge || got.text != "too large\n" || !got.Close {
		t.Errorf("%d %v %s", got.StatusCode, got.Header, got.text)
	}
}

func TestInformationalAnswersPass(t *testing.T) {
	d := newDoor(t)
	_, host := d.serve(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.Header().Set("Set-Cookie", "__Host-podagent-link=x")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header().Del("Set-Cookie")
		_, _ = io.Copy(w, r.Body) // asks for it
	})
	conn := d.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\n%s\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", host, tokenA)
	r := bufio.NewReader(conn)
	for _, want := range []int{103, 100, 200} {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if answer.StatusCode != want || answer.Header["Set-Cookie"] != nil || err != nil || (answer.Header["Link"] != nil) != (want == 103) || want == 200 && string(body) != "body" {
			t.Errorf("got %d %v %q, want %d: %v", answer.StatusCode, answer.Header, body, want, err)
		}
		if want == 100 {
			fmt.Fprint(conn, "body")
		}
	}
}

func TestHeadHasALengthAndNoBody(t *testing.T) {
	d := newDoor(t)
	_, host := d.serve(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1234") })
	if got := d.send("a", "HEAD", "/", "", "Host: "+host); got.StatusCode != 200 || got.ContentLength != 1234 || got.text != "" {
		t.Errorf("%d %d %q", got.StatusCode, got.ContentLength, got.text)
	}
}

func TestServerLearnsThatTheClientHasLeft(t *testing.T) {
	d := newDoor(t)
	called, left := make(chan bool), make(chan bool)
	_, host := d.serve(func(_ http.ResponseWriter, r *http.Request) {
		close(called)
		<-r.Context().Done()
		close(left)
	})
	conn := d.dial()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", host, tokenA)
	await(t, called)
	conn.Close()
	await(t, left)
}

func await(t *testing.T, happened <-chan bool) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(hung):
		t.Fatal("it does not happen")
	}
}

// hostile is a server that answers with these bytes, and then more of the second ones, until the
// connection ends.
func hostile(t *testing.T, first, more string) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				_, err := io.WriteString(conn, first)
				for err == nil && more != "" {
					_, err = io.WriteString(conn, more)
				}
			}()
		}
	}()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

func TestHostileServerGetsNoFurther(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"web"}`)
	for name, test := range map[string]struct{ first, more, want string }{
		"endless header":        {"HTTP/1.1 200 OK\r\nX-A: ", strings.Repeat("a", 10_000), "502"},
		"endless headers":       {"HTTP/1.1 200 OK\r\n", strings.Repeat("X-A: a\r\n", 1000), "502"},
		"endless status":        {"HTTP/1.1 200 ", strings.Repeat("a", 10_000), "502"},
		"informed without end":  {"", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "502"},
		"no HTTP":               {"SSH-2.0-OpenSSH\r\n", "", "502"},
		"nothing":               {"", "", "502"},
		"wrong status":          {"HTTP/1.1 42 OK\r\n\r\n", "", "502"},
		"two lengths":           {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "", "502"},
		"negative length":       {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "", "502"},
		"switched by itself":    {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "", "502"},
		"too short":             {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab", "", "cut"},
		"cut chunk":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "", "cut"},
		"more than it says":     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n\r\n", "", "200 ab"},
		"headers in its values": {"HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: x\r\nContent-Length: 0\r\n\r\n", "", "(200 |502)"},
	} {
		r, err := http.DefaultTransport.RoundTrip(d.request(hostile(t, test.first, test.more)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		got := fmt.Sprint(r.StatusCode, " ", string(text))
		if err != nil {
			got = "cut"
		}
		if !regexp.MustCompile("^"+test.want).MatchString(got) || r.Header["Set-Cookie"] != nil {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// request returns a request of acme's to a port of the sandbox "web".
func (d *door) request(port string) *http.Request {
	return (&http.Request{
		Method: "GET", URL: must(url.Parse(d.url)), Header: http.Header{"X-Sandbox-Id": {"web"}, "X-Sandbox-Port": {port}, "Authorization": {"Bearer a"}},
	}).WithContext(d.Context())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A sandbox that is another by now is found again by the next request.
func TestSuccessorOfASandboxIsReached(t *testing.T) {
	d := newDoor(t)
	_, host := d.serve(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") })
	for range 2 {
		if got := d.ask("GET", host, "/", tokenA); got.text != "served" {
			t.Fatalf("%d %s", got.StatusCode, got.text)
		}
		d.walk(step{"DELETE", "/api/v1/sandboxes/web", "", nil, 204, ""})
		if got := d.ask("GET", host, "/", tokenA); got.StatusCode != 404 {
			t.Errorf("of none: %d %s", got.StatusCode, got.text)
		}
		d.walk(step{"POST", "/api/v1/sandboxes", `{"id":"web"}`, nil, 201, ""})
	}
}
