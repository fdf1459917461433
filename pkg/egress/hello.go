package egress

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// opening is what a client sends first.
type opening struct {
	head []byte // all of it that was read
	tls  bool
	sni  string // "" without one
}

// readOpening reads what a client sends first: up to its TLS hello, if it begins with
// TLS, else some bytes. It waits for the first byte as long as it takes, since it may be
// the server's turn, and then no longer than most for the hello. The hello is read by
// crypto/tls, in as many records as it comes. It fails if it is none, or is larger than
// largestHello.
func readOpening(c net.Conn, most time.Duration) (o opening, err error) {
	r := &recorder{Conn: c}
	first := make([]byte, 4<<10)
	n, err := c.Read(first)
	o.head = first[:n]
	if n == 0 {
		return o, err
	}
	if o.tls = isTLS(first[0]); !o.tls {
		return o, nil
	}
	if err := c.SetReadDeadline(time.Now().Add(most)); err != nil {
		return o, err
	}
	r.record, r.again = o.head, o.head
	o.sni, err = r.hello()
	o.head = r.record
	return o, errors.Join(err, c.SetReadDeadline(time.Time{}))
}

// isTLS reports whether a byte is the type of a TLS record. No protocol of text begins
// with one, and servers skip some of the others in front of a hello.
func isTLS(first byte) bool { return 20 <= first && first <= 24 }

// largestHello bounds a hello with its records; crypto/tls takes no larger message.
const largestHello = 68 << 10

// recorder is a connection that remembers what it read, and sends nothing.
type recorder struct {
	net.Conn
	record []byte // all that was read
	again  []byte // the end of record, to be read again
}

var errLargeHello = errors.New("the TLS hello is too large")

func (r *recorder) Read(p []byte) (int, error) {
	if len(r.again) > 0 {
		n := copy(p, r.again)
		r.again = r.again[n:]
		return n, nil
	}
	if len(r.record) >= largestHello {
		return 0, errLargeHello
	}
	n, err := r.Conn.Read(p[:min(len(p), largestHello-len(r.record))])
	r.record = append(r.record, p[:n]...)
	return n, err
}

func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }

// errHaveHello ends a handshake after its hello.
var errHaveHello = errors.New("the hello is read")

// hello returns the server name of the TLS hello.
func (r *recorder) hello() (sni string, err error) {
	config := &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		sni = info.ServerName
		return nil, errHaveHello
	}}
	err = tls.Server(r, config).Handshake()
	if errors.Is(err, errHaveHello) {
		return sni, nil
	}
	return "", fmt.Errorf("cannot read the TLS hello: %w", err)
}

// checkOpening returns a *refusal if what a client sends first is TLS for another host
// than the target. What does not begin with TLS may be anything.
func (p Policy) checkOpening(o opening, t target) error {
	switch {
	case !o.tls:
		return nil
	case t.name == "":
		return p.checkAddressName(o.sni, t)
	case o.sni == "":
		return &refusal{reason: fmt.Sprintf("the TLS hello names no host (SNI), and %s was asked for", t.name)}
	}
	if name, err := canonicalName(o.sni); err != nil || name != t.name {
		return &refusal{reason: fmt.Sprintf("the TLS hello asks for %.100q (SNI), and %s was asked for", o.sni, t.name)}
	}
	return nil
}

// checkAddressName checks the server name in a hello to an address: there must be none,
// or a rule that names the address, which then decides.
func (p Policy) checkAddressName(sni string, t target) error {
	if sni == "" || sni == t.addr.String() {
		return nil
	}
	for _, r := range p.Allow {
		if r.form == addresses && r.matchesHost(t) && r.matchesPort(t.port) {
			return nil
		}
	}
	return &refusal{reason: fmt.Sprintf("the TLS hello asks for %.100q (SNI), and the address %v was asked for: ask for the name", sni, t.addr)}
}

// accessDenied is a TLS alert for a client whose hello was refused.
var accessDenied = []byte{21, 3, 3, 0, 2, 2, 49}
