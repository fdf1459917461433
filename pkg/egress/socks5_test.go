package egress

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
)

func TestSOCKS5(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) { fmt.Fprint(conn, "here"); _, _ = io.Copy(io.Discard, conn) })
	f := newFront(t, Options{}, named("allowed.test", port), fmt.Sprintf("127.0.0.1:%d", port))
	p := string([]byte{byte(port >> 8), byte(port)})
	refused := func(code byte) string { return "\x05\x00" + string(socksReply(code)) }
	for _, c := range []struct{ what, sent, want string }{
		{"a name", "\x05\x01\x00\x05\x01\x00\x03\x0callowed.test" + p, refused(socksSucceeded) + "here"},
		{"an IPv4 address", "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01" + p, refused(socksSucceeded) + "here"},
		{"an IPv4 address in IPv6", "\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01" + p, refused(socksSucceeded) + "here"},
		{"an address as a name", "\x05\x01\x00\x05\x01\x00\x03\x09127.0.0.1" + p, refused(socksSucceeded) + "here"},
		{"one method of several", "\x05\x02\x02\x00\x05\x01\x00\x03\x0callowed.test" + p, refused(socksSucceeded) + "here"},
		{"an IPv6 address", "\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + p, refused(socksNotAllowed)},
		{"no address", "\x05\x01\x00\x05\x01\x00\x01\x00\x00\x00\x00" + p, refused(socksNotAllowed)},
		{"a name with a zero byte", "\x05\x01\x00\x05\x01\x00\x03\x0dallowed.test\x00" + p, refused(socksNotAllowed)},
		{"an empty name", "\x05\x01\x00\x05\x01\x00\x03\x00" + p, refused(socksNotAllowed)},
		{"port 0", "\x05\x01\x00\x05\x01\x00\x03\x0callowed.test\x00\x00", refused(socksNotAllowed)},
		{"BIND", "\x05\x01\x00\x05\x02\x00\x03\x0callowed.test" + p, refused(socksNoCommand)},
		{"UDP ASSOCIATE", "\x05\x01\x00\x05\x03\x00\x01\x00\x00\x00\x00" + p, refused(socksNoCommand)},
		{"another type of address", "\x05\x01\x00\x05\x01\x00\x02\x0callowed.test" + p, refused(socksNoAddressType)},
		{"another version", "\x05\x01\x00\x04\x01\x00\x03\x0callowed.test" + p, refused(socksFailed)},
		{"a password", "\x05\x01\x02", "\x05\xff"},
		{"no method", "\x05\x00", "\x05\xff"},
		{"SOCKS4", "\x04\x01" + p + "\x7f\x00\x00\x01\x00", "\x00\x5b\x00\x00\x00\x00\x00\x00"},
		{"an end in the middle", "\x05\x01\x00\x05\x01", "\x05\x00"},
	} {
		t.Run(c.what, func(t *testing.T) {
			conn := f.dial(t)
			_, _ = io.WriteString(conn, c.sent)
			_ = conn.CloseWrite()
			if got := body(t, conn); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

type exchange struct {
	io.Reader
	bytes.Buffer
}

func (e *exchange) Read(p []byte) (int, error) { return e.Reader.Read(p) }

func FuzzSOCKS5(f *testing.F) {
	f.Add([]byte("\x01\x00\x05\x01\x00\x03\x0callowed.test\x01\xbbrest"))
	f.Add([]byte("\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x02\x02\x00\x05\x01\x00\x04" + "0123456789abcdef\x00\x50"))
	f.Fuzz(func(t *testing.T, data []byte) {
		left := bytes.NewReader(data)
		host, port, err := readSOCKS(&exchange{Reader: left})
		if err != nil {
			return
		}
		// methods, head, address and port: nothing of what follows
		want := 1 + int(data[0]) + 4 + 2
		switch data[1+int(data[0])+3] {
		case socksIPv4:
			want += 4
		case socksIPv6:
			want += 16
		default:
			want += 1 + len(host)
		}
		if used := len(data) - left.Len(); used != want {
			t.Fatalf("%d bytes are used of %d", used, want)
		}
		if target, err := newTarget(host, port); err == nil {
			if again, err := newTarget(target.host(), port); err != nil || again != target {
				t.Fatalf("%v is also %v, %v", target, again, err)
			}
		}
	})
}
