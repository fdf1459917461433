package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// helloFor returns what a TLS client sends first.
func helloFor(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	w := &recordingWriter{}
	if err := tls.Client(w, config).Handshake(); err == nil {
		t.Fatal("the handshake succeeded")
	}
	return w.Bytes()
}

// recordingWriter is a connection without another side.
type recordingWriter struct {
	net.Conn
	bytes.Buffer
}

func (w *recordingWriter) Read([]byte) (int, error)         { return 0, io.EOF }
func (w *recordingWriter) Write(p []byte) (int, error)      { return w.Buffer.Write(p) }
func (w *recordingWriter) SetWriteDeadline(time.Time) error { return nil }
func (w *recordingWriter) Close() error                     { return nil }

// inRecordsOf splits the only record of a hello into several.
func inRecordsOf(n int, hello []byte) (records []byte) {
	for rest := hello[5:]; len(rest) > 0; {
		part := rest[:min(n, len(rest))]
		records = append(append(records, 22, 3, 1, byte(len(part)>>8), byte(len(part))), part...)
		rest = rest[len(part):]
	}
	return records
}

// sentHello is what a client sends first in a tunnel to a host.
type sentHello struct {
	what   string
	rules  string
	host   string
	sent   []byte
	reason string // "" if it passes
}

func sentHellos(t *testing.T) []sentHello {
	hello := func(name string) []byte { return helloFor(t, &tls.Config{ServerName: name, InsecureSkipVerify: true}) }
	alert := []byte{21, 3, 1, 0, 2, 1, 90} // a warning, which some servers skip
	return []sentHello{
		{"the host itself", "allowed.test=ADDRESS", "allowed.test", hello("allowed.test"), ""},
		{"the host in other letters", "allowed.test=ADDRESS", "ALLOWED.test.", hello("Allowed.TEST"), ""},
		{"another host", "allowed.test=ADDRESS", "allowed.test", hello("evil.test"), `asks for "evil.test" (SNI), and allowed.test was asked for`},
		{"a part of the name", "allowed.test=ADDRESS", "allowed.test", hello("lowed.test"), "lowed.test"},
		{"no host", "allowed.test=ADDRESS", "allowed.test", hello(""), "names no host"},
		{"another host that is allowed, too", "allowed.test=ADDRESS other.test", "allowed.test", hello("other.test"), "other.test"},
		{"an address without a name", "127.0.0.1:PORT", "127.0.0.1", hello(""), ""},
		{"a name at an address that a rule names", "127.0.0.1:PORT", "127.0.0.1", hello("evil.test"), ""},
		{"another host in records of a byte", "allowed.test=ADDRESS", "allowed.test", inRecordsOf(1, hello("evil.test")), "evil.test"},
		{"the host in records of a byte", "allowed.test=ADDRESS", "allowed.test", inRecordsOf(1, hello("allowed.test")), ""},
		{"an alert before another host", "allowed.test=ADDRESS", "allowed.test", append(alert, hello("evil.test")...), "evil.test"},
		{"a change of ciphers before another host", "allowed.test=ADDRESS", "allowed.test", append([]byte{20, 3, 1, 0, 1, 1}, hello("evil.test")...), "cannot read the TLS hello"},
		{"TLS that is none", "allowed.test=ADDRESS", "allowed.test", []byte("\x16\x03\x01\x00\x05hello, world"), "cannot read the TLS hello"},
		{"an endless hello", "allowed.test=ADDRESS", "allowed.test", bytes.Repeat(inRecordsOf(1<<14, append(make([]byte, 5), append([]byte{1, 0, 255, 255}, make([]byte, 1<<14-4)...)...)), 8), "cannot read the TLS hello"},
		{"no TLS at all", "allowed.test=ADDRESS", "allowed.test", []byte("SSH-2.0-test\r\n"), ""},
	}
}

func TestHellosForAnotherHost(t *testing.T) {
	for _, c := range sentHellos(t) {
		t.Run(c.what, func(t *testing.T) {
			got := make(chan []byte, 1)
			port := serveEach(t, func(conn *net.TCPConn) {
				all, _ := io.ReadAll(conn)
				got <- all
			})
			rules := strings.NewReplacer("ADDRESS", fmt.Sprintf("127.0.0.1:%d", port), "PORT", fmt.Sprint(port)).Replace(c.rules)
			f := newFront(t, Options{}, strings.Fields(rules)...)
			conn := f.tunnel(t, c.host, port)
			go func() {
				_, _ = conn.Write(c.sent)
				_ = conn.CloseWrite()
			}()
			answer, err := io.ReadAll(conn)
			c.check(t, f, <-got, answer, err)
		})
	}
}

// check compares what the host got of a hello, and what the client did, with what is wanted.
func (c *sentHello) check(t *testing.T, f *front, got, answer []byte, err error) {
	t.Helper()
	if c.reason == "" {
		if !bytes.Equal(got, c.sent) || err != nil {
			t.Errorf("the host got %d bytes of %d, and the client %v", len(got), len(c.sent), err)
		}
		return
	}
	if len(got) > 0 {
		t.Errorf("the host got %q", got)
	}
	if err == nil && !bytes.Equal(answer, accessDenied) {
		t.Errorf("the client got %q", answer)
	}
	if d := f.decision(1); d.Verdict != Denied || d.ID != f.decision(0).ID || !strings.Contains(d.Reason, c.reason) {
		t.Errorf("got %+v, want %q", d, c.reason)
	}
}

func TestHelloToAnAddressThatNoRuleNames(t *testing.T) {
	// The address is public, so that it can't be reached here.
	target, err := newTarget("8.8.8.8", "443")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule, sni string
		want      bool
	}{
		{"*", "", true},
		{"*", "8.8.8.8", true},
		{"*", "dns.google", false},
		{"8.8.0.0/16", "dns.google", true},
		{"8.8.8.8:22", "dns.google", false},
	} {
		if err := policyOf(t, c.rule).checkOpening(opening{tls: true, sni: c.sni}, target); (err == nil) != c.want {
			t.Errorf("%s, SNI %q: %v", c.rule, c.sni, err)
		}
	}
}

func TestClientSeesThatItsHelloIsRefused(t *testing.T) {
	ca := newAuthority(t)
	port := serveHTTPS(t, ca, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") }, "fronted.test")
	f := newFront(t, Options{}, named("allowed.test", port))
	_, conn := f.connect(t, fmt.Sprintf("allowed.test:%d", port))
	err := tls.Client(conn, &tls.Config{ServerName: "fronted.test", RootCAs: ca.pool}).Handshake()
	if err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("got %v", err)
	}
}

func TestHelloThatNeverEnds(t *testing.T) {
	t.Parallel()
	port := serveEach(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	f := newFront(t, Options{headerTime: 5 * time.Second}, named("allowed.test", port))
	_, conn := f.connect(t, fmt.Sprintf("allowed.test:%d", port))
	_, _ = conn.Write([]byte{22, 3, 1})
	if answer, err := io.ReadAll(conn); err != nil || !bytes.Equal(answer, accessDenied) {
		t.Errorf("got %q, %v", answer, err)
	}
}

func TestServersMaySpeakFirst(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) {
		fmt.Fprint(conn, "220 ready\n")
		_, _ = io.Copy(conn, conn)
	})
	f := newFront(t, Options{}, named("allowed.test", port))
	_, conn := f.connect(t, fmt.Sprintf("allowed.test:%d", port))
	greeting := make([]byte, 10)
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != "220 ready\n" {
		t.Fatalf("got %q, %v", greeting, err)
	}
	fmt.Fprint(conn, "EHLO")
	_ = conn.CloseWrite()
	if answer := body(t, conn); answer != "EHLO" {
		t.Errorf("got %q", answer)
	}
}

// pieces is a connection that gives its bytes in pieces.
type pieces struct {
	net.Conn
	data []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.data)
	p.data = p.data[n:]
	return n, nil
}

func (p *pieces) SetReadDeadline(time.Time) error { return nil }

func FuzzHello(f *testing.F) {
	f.Add(helloFor(f, &tls.Config{ServerName: "allowed.test"}), 7)
	f.Add(inRecordsOf(9, helloFor(f, &tls.Config{ServerName: "evil.test"})), 1)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 100)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = max(1, size)
		c := &pieces{data: data, size: size}
		o, err := readOpening(c, hung)
		if !bytes.HasPrefix(data, o.head) || len(o.head)+len(c.data) != len(data) {
			t.Fatalf("%d bytes are read, and %d are left, of %d", len(o.head), len(c.data), len(data))
		}
		if len(o.head) > largestHello {
			t.Fatalf("%d bytes are held", len(o.head))
		}
		if err == nil && o.tls != isTLS(data[0]) {
			t.Fatalf("TLS: %v, of %x", o.tls, data[0])
		}
		// Whatever is let through is, for a server of crypto/tls, a hello for the host.
		if err != nil || !o.tls {
			return
		}
		target, _ := newTarget("allowed.test", "443")
		if (Policy{}).checkOpening(o, target) != nil {
			return
		}
		seen := ""
		_ = tls.Server(&recorder{Conn: &pieces{data: data, size: 1}}, &tls.Config{GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = i.ServerName
			return nil, errors.New("enough")
		}}).Handshake()
		if !strings.EqualFold(seen, "allowed.test") {
			t.Fatalf("the server sees %q", seen)
		}
	})
}
