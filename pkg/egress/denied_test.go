package egress

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What the proxy cannot serve is denied, and told like all that is denied.
func TestWhatCannotBeServedIsTold(t *testing.T) {
	for _, c := range []struct{ what, sent, protocol, host, reason string }{
		{"BIND", "\x05\x01\x00\x05\x02\x00\x03\x09evil.test\x01\xbb", "socks5", "evil.test", "BIND"},
		{"UDP ASSOCIATE", "\x05\x01\x00\x05\x03\x00\x01\x08\x08\x08\x08\x00\x35", "socks5", "8.8.8.8", "UDP"},
		{"a password", "\x05\x01\x02", "socks5", "", "without authentication"},
		{"another type of address", "\x05\x01\x00\x05\x01\x00\x02", "socks5", "", "unknown type"},
		{"another version", "\x05\x01\x00\x04\x01\x00\x03", "socks5", "", "version 5"},
		{"SOCKS4", "\x04\x01\x01\xbb\x08\x08\x08\x08\x00", "", "", "SOCKS4"},
		{"CONNECT without a port", "CONNECT evil.test HTTP/1.1\r\nHost: x\r\n\r\n", "connect", `"evil.test"`, "HOST:PORT"},
		{"CONNECT with a body", "CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", "connect", `"evil.test:443"`, "HOST:PORT"},
		{"GET https", "GET https://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n", "http", "evil.test", "CONNECT"},
		{"GET ftp", "GET ftp://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n", "http", `"evil.test"`, "CONNECT"},
		{"GET of a path", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "http", `"evil.test"`, "absolute URL"},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := newFront(t, Options{}, "evil.test", "8.8.8.8")
			io.WriteString(f.dial(t), c.sent)
			if d := f.decision(0); d.Verdict != Denied || d.Protocol != c.protocol || d.Host != c.host || !strings.Contains(d.Reason, c.reason) || d.ID == 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A connection can repeat itself, and name more hosts than anybody wants to read of.
func TestWhatCannotBeServedIsToldOnce(t *testing.T) {
	f := newFront(t, Options{})
	conn := f.dial(t)
	answers := bufio.NewReader(conn)
	for n := range 2 * mostTold {
		for range 2 {
			fmt.Fprintf(conn, "GET https://host-%d.test/ HTTP/1.1\r\nHost: x\r\n\r\n", n)
			answer, err := http.ReadResponse(answers, nil)
			if err != nil || answer.StatusCode != http.StatusBadRequest {
				t.Fatalf("%v, %v", answer, err)
			}
			io.Copy(io.Discard, answer.Body)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.decisions) != mostTold || f.decisions[1].Host != "host-1.test" {
		t.Errorf("%d decisions", len(f.decisions))
	}
}

// A request in opened TLS for another host is a try to reach that.
func TestWhatOpenedTLSRefusesIsTold(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, newWitness(nil))
		client := o.client(t, http2)
		for range 2 {
			for _, fronted := range []string{"evil.test", "evil2.test"} {
				r := get(t, "https://"+theHost)
				r.Host = fronted
				do(t, client, r)
			}
			do(t, client, request(t, "TRACE", "https://"+theHost, nil))
			do(t, client, get(t, "https://"+theHost))
		}
		for _, part := range []string{"evil.test", "evil2.test", "TRACE"} {
			if got := o.sighted(t); !strings.HasPrefix(got, "denied : ") || !strings.Contains(got, part) {
				t.Errorf("%s: %s", part, got)
			}
		}
		client.CloseIdleConnections()
		if len(o.seen) > 0 {
			t.Errorf("also %s", o.sighted(t))
		}
	})
}
