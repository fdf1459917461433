package egress

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// ways are those by which the benchmarks reach a port.
func (f *front) ways() map[string]func(b *testing.B, port int) net.Conn {
	return map[string]func(b *testing.B, port int) net.Conn{
		"direct": func(b *testing.B, port int) net.Conn {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				b.Fatal(err)
			}
			return conn
		},
		"connect": func(b *testing.B, port int) net.Conn {
			response, conn := f.connect(b, fmt.Sprintf("allowed.test:%d", port))
			if response.StatusCode != 200 {
				b.Fatal(response.Status)
			}
			return conn
		},
		"socks5": func(b *testing.B, port int) net.Conn {
			reply, conn := f.socks(b, "allowed.test", port)
			if reply != socksSucceeded {
				b.Fatal(reply)
			}
			return conn
		},
	}
}

func BenchmarkDownload(b *testing.B) {
	const size = 64 << 20
	port := serveEach(b, func(conn *net.TCPConn) { _, _ = io.CopyN(struct{ io.Writer }{conn}, zeros{}, size) })
	f := newFront(b, Options{}, named("allowed.test", port))
	for way, dial := range f.ways() {
		b.Run(way, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				conn := dial(b, port)
				if n, err := io.Copy(struct{ io.Writer }{io.Discard}, conn); n != size || err != nil {
					b.Fatal(n, err)
				}
				conn.Close()
			}
		})
	}
}

// BenchmarkTLS connects, and gets one answer by TLS, whose hello the proxy reads.
func BenchmarkTLS(b *testing.B) {
	ca := newAuthority(b)
	port := serveHTTPS(b, ca, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") }, "allowed.test")
	f := newFront(b, Options{}, named("allowed.test", port))
	for way, dial := range f.ways() {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				conn := tls.Client(dial(b, port), &tls.Config{ServerName: "allowed.test", RootCAs: ca.pool})
				fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n")
				if _, err := io.Copy(io.Discard, conn); err != nil {
					b.Fatal(err)
				}
				conn.Close()
			}
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	port := serveHTTP(b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
	f := newFront(b, Options{}, named("allowed.test", port))
	for way, client := range map[string]struct {
		*http.Client
		host string
	}{"direct": {http.DefaultClient, "127.0.0.1"}, "http": {f.client(b, "http", nil), "allowed.test"}} {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				response, err := client.Get(fmt.Sprintf("http://%s:%d/", client.host, port))
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
}
