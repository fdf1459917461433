package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

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

func TestWebSocketReachesAServer(t *testing.T) {
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
	var got []int
	for !slices.Contains(got, 200) {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		got = append(got, answer.StatusCode)
		if answer.Header["Set-Cookie"] != nil || err != nil || (answer.Header["Link"] != nil) != (answer.StatusCode == 103) || answer.StatusCode == 200 && string(body) != "body" {
			t.Errorf("got %d %v %q: %v", answer.StatusCode, answer.Header, body, err)
		}
		if answer.StatusCode == 100 {
			fmt.Fprint(conn, "body")
		}
	}
	// The gateway asks for the body itself of a server that is slow to do so.
	if !slices.Equal(got, []int{103, 100, 200}) && !slices.Equal(got, []int{100, 103, 200}) {
		t.Errorf("the answers are %v", got)
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
		"status 000":            {"HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\nab", "", "502"},
		"status 099":            {"HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nab", "", "502"},
		"status 199":            {"HTTP/1.1 199 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "200 ab"},
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
