package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"
)

// exchange sends text to the proxy, ends it, and returns all that comes.
func (f *front) exchange(t *testing.T, text string) string {
	t.Helper()
	conn := f.dial(t)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	dump, err := httputil.DumpResponse(response, true)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return string(dump)
}

// serveDumps serves what it is asked, as text.
func serveDumps(t testing.TB) int {
	return serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		dump, _ := httputil.DumpRequest(r, true)
		_, _ = w.Write(dump)
	})
}

func TestRequestsAreWrittenAnew(t *testing.T) {
	port := serveDumps(t)
	f := newFront(t, Options{}, named("allowed.test", port), "other.test")
	at := fmt.Sprintf("allowed.test:%d", port)
	for _, c := range []struct{ what, sent, want, not string }{
		{"Host of another host", "GET http://" + at + "/ HTTP/1.1\r\nHost: other.test\r\n\r\n", "Host: " + at, "other.test"},
		{"two Hosts", "GET http://" + at + "/ HTTP/1.1\r\nHost: " + at + "\r\nHost: other.test\r\n\r\n", "400 Bad Request", "GET /"},
		{"two lengths", "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400 Bad Request", "POST /"},
		{"a length and chunks", "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 3"},
		{"an unknown encoding", "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", "501 ", "POST /"},
		{"a folded header", "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nA: b\r\n Host: other.test\r\n\r\n", "", "\r\nHost: other.test"},
		{"a space before the colon", "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n", "400 Bad Request", "GET /"},
		{"a header of a hop", "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nConnection: Secret-Of-Hop\r\nSecret-Of-Hop: 1\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\n\r\n", "GET / HTTP/1.1", "Hop"},
		{"credentials of the proxy", "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic eDp5\r\n\r\n", "GET / HTTP/1.1", "eDp5"},
		{"a user in the URL", "GET http://u:p@" + at + "/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1", "u:p"},
		{"a final dot", "GET http://Allowed.TEST.:" + fmt.Sprint(port) + "/ HTTP/1.1\r\nHost: x\r\n\r\n", "Host: " + at, "TEST"},
		{"an odd query", "GET http://" + at + "/a%2fb?x=%zz;y&=1 HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a%2fb?x=%zz;y&=1 HTTP/1.1", ""},
		{"whom it is forwarded for", "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n", "X-Forwarded-For: 1.2.3.4", "127.0.0.1"},
		{"HTTP/2 in place of HTTP/1.1", "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "GET / HTTP/1.1", "h2c"},
		{"no host", "GET / HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "needs an absolute URL", "Host"},
		{"all of the server", "OPTIONS * HTTP/1.1\r\nHost: " + at + "\r\n\r\n", "needs an absolute URL", "Host"},
		{"https", "GET https://" + at + "/ HTTP/1.1\r\nHost: x\r\n\r\n", "use CONNECT", "Host"},
		{"HTTP/2 from the start", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 ", "Host"},
		{"CONNECT without a port", "CONNECT allowed.test HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", ""},
		{"CONNECT with a path", "CONNECT /" + at + " HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", ""},
		{"CONNECT with a body", "CONNECT " + at + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", "400 Bad Request", ""},
		{"CONNECT to a port by name", "CONNECT allowed.test:http HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", ""},
		{"CONNECT to port 0", "CONNECT allowed.test:0 HTTP/1.1\r\nHost: x\r\n\r\n", "403 Egress denied", ""},
		{"headers that are too large", "GET http://" + at + "/ HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", largestHeader+8<<10) + "\r\n\r\n", "431 ", "GET /"},
		{"TLS to the proxy itself", "\x16\x03\x01\x00\x05hello\r\n\r\n", "400 Bad Request", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			got := f.exchange(t, c.sent)
			if !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("sent %.300q, got %s", c.sent, got)
			}
		})
	}
}

func TestAddressesInOddFormsAreRefused(t *testing.T) {
	port := serveDumps(t)
	f := newFront(t, Options{Resolver: names{}}, "*:*")
	for _, host := range []string{"127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[fe80::1%25lo]", "0.0.0.0", "0", "[::]", "%31%32%37.0.0.1", "１２７.0.0.1"} {
		for _, request := range []string{"GET http://%s:%d/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT %s:%d HTTP/1.1\r\nHost: x\r\n\r\n"} {
			got := f.exchange(t, fmt.Sprintf(request, host, port))
			if !strings.Contains(got, " 403 ") && !strings.Contains(got, " 400 ") {
				t.Errorf("%.20s %s: %s", request, host, got)
			}
		}
		if reply, _ := f.socks(t, host, port); reply != socksNotAllowed {
			t.Errorf("SOCKS5 to %s: reply %d", host, reply)
		}
	}
}

func TestRedirectsAreTheClients(t *testing.T) {
	hidden := serveHTTP(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy has followed the redirect") })
	for _, to := range []string{"http://169.254.169.254/latest/meta-data/", fmt.Sprintf("http://127.0.0.1:%d/", hidden)} {
		port := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
		f := newFront(t, Options{}, named("allowed.test", port), "*:*")
		client := f.client(t, "http", nil)
		response, err := client.Get(fmt.Sprintf("http://allowed.test:%d/", port))
		if err != nil || response.StatusCode != 302 || response.Header.Get("Location") != to {
			t.Fatalf("got %v, %v", response, err)
		}
		response.Body.Close()
		client.CheckRedirect = nil
		response, err = client.Get(fmt.Sprintf("http://allowed.test:%d/", port))
		if err != nil {
			t.Fatal(err)
		}
		if text := body(t, response.Body); response.StatusCode != 403 || !strings.Contains(text, "and no rule names it") {
			t.Errorf("the redirect to %s ended with %s\n%s", to, response.Status, text)
		}
	}
}

func TestUpgrades(t *testing.T) {
	port := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(conn, rw)
	})
	f := newFront(t, Options{}, named("allowed.test", port))
	conn := f.dial(t)
	fmt.Fprintf(conn, "GET http://allowed.test:%d/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", port)
	if response := readAnswer(t, conn, nil); response.StatusCode != 101 || response.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("got %v", response)
	}
	fmt.Fprint(conn, "frames")
	echo := make([]byte, 6)
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "frames" {
		t.Errorf("got %q, %v", echo, err)
	}
}

func TestLargeBodiesAndTrailersStream(t *testing.T) {
	const size = 8 << 20
	begun := make(chan bool)
	port := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "begun")
		w.(http.Flusher).Flush()
		<-begun // the client has got this before the answer is complete
		n, err := io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Sum", fmt.Sprint(n, err, r.Trailer.Get("X-End")))
		_, _ = io.CopyN(w, zeros{}, size)
	})
	f := newFront(t, Options{}, named("allowed.test", port))
	request, err := http.NewRequest("POST", fmt.Sprintf("http://allowed.test:%d/", port), io.LimitReader(zeros{}, size))
	if err != nil {
		t.Fatal(err)
	}
	request.Trailer = http.Header{"X-End": {"yes"}}
	request.ContentLength = -1
	response, err := f.client(t, "http", nil).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(response.Body, first); err != nil {
		t.Fatal(err)
	}
	close(begun)
	n, err := io.Copy(io.Discard, response.Body)
	if n != size || err != nil || response.Trailer.Get("X-Sum") != fmt.Sprint(size, error(nil), "yes") {
		t.Errorf("got %d bytes, %v, trailer %v", n, err, response.Trailer)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAnswersThatBreakOffAreErrors(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
	})
	f := newFront(t, Options{}, named("allowed.test", port))
	for _, version := range []string{"1.0", "1.1"} {
		conn := f.dial(t)
		fmt.Fprintf(conn, "GET http://allowed.test:%d/ HTTP/%s\r\nHost: x\r\n\r\n", port, version)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			continue // the reset came before what was sent
		}
		if text, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("HTTP/%s: got %q without an error", version, text)
		}
	}
}

func TestHeadersThatNeverEnd(t *testing.T) {
	f := newFront(t, Options{headerTime: 50 * time.Millisecond})
	for _, sent := range []string{"", "GET", "CONNECT evil.test:443 HTTP/1.1\r\n", "\x05", "\x05\x01", "\x05\x01\x00\x05\x01"} {
		conn := f.dial(t)
		_, _ = io.WriteString(conn, sent)
		if _, err := io.ReadAll(conn); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("%q: the connection stays open", sent)
			}
		}
	}
}

// FuzzRequests sends whatever text to the proxy. A host that is allowed may see requests,
// each of which must be its own, in an unambiguous form; another host must see none.
func FuzzRequests(f *testing.F) {
	var other, here []byte
	port := serveEach(f, func(conn *net.TCPConn) {
		for r := bufio.NewReader(conn); ; {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if host, _, _ := strings.Cut(request.Host, ":"); host != "allowed.test" {
				panic(fmt.Sprintf("the host sees a request for %q", request.Host))
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	forbidden := serveEach(f, func(*net.TCPConn) { panic("a host that is not allowed is reached") })
	at := []byte(fmt.Sprintf("allowed.test:%d", port))
	here, other = []byte("ALLOWED"), []byte("OTHER")
	for _, seed := range []string{
		"GET http://ALLOWED/ HTTP/1.1\r\nHost: OTHER\r\n\r\n",
		"POST http://ALLOWED/ HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\nGET http://OTHER/ HTTP/1.1\r\n\r\n",
		"POST http://ALLOWED/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET http://OTHER/ HTTP/1.1\r\nHost: OTHER\r\n\r\n",
		"CONNECT OTHER HTTP/1.1\r\nHost: ALLOWED\r\n\r\n",
		"\x05\x01\x00\x05\x01\x00\x03\x09127.0.0.1\x00\x50",
		"\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
	} {
		f.Add([]byte(seed))
	}
	front := newFront(f, Options{Resolver: names{}}, named("allowed.test", port))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("CONNECT ALLOWED")) {
			return // what is in a tunnel is the client's
		}
		data = bytes.ReplaceAll(data, here, at)
		data = bytes.ReplaceAll(data, other, fmt.Appendf(nil, "127.0.0.1:%d", forbidden))
		conn, err := net.Dial("tcp", front.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(hung))
		_, _ = conn.Write(data)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, err = io.Copy(io.Discard, conn)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatal("the proxy hangs")
		}
	})
}

func TestURLsAreReadInOneWay(t *testing.T) {
	// What url.Parse lets a host be, canonical must read in the same way, or refuse.
	for raw, want := range map[string]string{
		"http://allowed.test@evil.test/":         "evil.test",
		"http://evil.test\\@allowed.test/":       "",
		"http://allowed.test#@evil.test/":        "",
		"http://allowed.test%00.evil.test/":      "",
		"http://allowed.test%2eevil.test/":       "",
		"http://[::ffff:127.0.0.1]:80/":          "127.0.0.1",
		"http://allowed.test:80:81/":             "",
		"http://allowed.test\t.evil.test/":       "",
		"http://%61llowed.test/":                 "",
		"http://%e2%93%94vil.test/":              "evil.test",
		"http://allowed。test/":                   "allowed.test",
		"http://allowed.test\u00ad/":             "allowed.test",
		"http://allowed.test:00080/":             "allowed.test",
		"http://allowed.test?@evil.test/":        "allowed.test",
		"http://allowed.test/@evil.test/":        "allowed.test",
		"http://user:pass@allowed.test:80/a@b:1": "allowed.test",
	} {
		got := ""
		if u, err := url.ParseRequestURI(raw); err == nil {
			if target, err := newTarget(u.Hostname(), "80"); err == nil {
				got = target.host()
			}
		}
		if got != want {
			t.Errorf("%q is for %q, want %q", raw, got, want)
		}
	}
}
