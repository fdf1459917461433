package egress

import (
	"fmt"
	"io"
	"net"
	"time"
)

// Why a connection is refused.
const (
	errNone = "nobody outside lets this sandbox's connections out: it has no far end (see --allow-host)"
	errMany = "this sandbox has too many connections open through the proxy: close some, or end what leaks them"
	errGone = "the far end, which lets this sandbox's connections out, is away: try again"
)

// socks5 is the first byte of a SOCKS5 client's greeting. The requests of HTTP begin with a
// letter.
const socks5 = 5

// refuse tells a connection why it leads nowhere, in its own protocol, ends it, and calls done.
func (p *Proxy) refuse(conn *net.TCPConn, reason string, done func()) {
	defer done()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(p.lastWords))
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return
	}
	answer := httpRefusal(reason)
	if first[0] == socks5 {
		answer = socksRefusal
	}
	if _, err := io.WriteString(conn, answer); err != nil {
		return
	}
	_ = conn.CloseWrite()
	// A close before the client has sent all would take the answer from it.
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, mostWords))
}

// socksRefusal is the choice of no authentication, and the answer "general failure" to the
// request that comes next.
const socksRefusal = "\x05\x00" + "\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00"

func httpRefusal(reason string) string {
	body := "podagent: " + reason + "\n"
	return fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}
