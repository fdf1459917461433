package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// What SOCKS5 needs of RFC 1928: CONNECT without authentication.
const (
	socksVersion  = 5
	socksVersion4 = 4

	socksNoAuth   = 0
	socksNoMethod = 0xff
	socksConnect  = 1

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4
)

// The replies of SOCKS5.
const (
	socksSucceeded       = 0
	socksFailed          = 1
	socksNotAllowed      = 2
	socksNetUnreachable  = 3
	socksHostUnreachable = 4
	socksRefused         = 5
	socksTimedOut        = 6
	socksNoCommand       = 7
	socksNoAddressType   = 8
)

// socksError is a request that gets this reply.
type socksError byte

func (e socksError) Error() string {
	switch e {
	case socksNoCommand:
		return "SOCKS5 is served for CONNECT alone, neither for BIND nor for UDP"
	case socksNoAddressType:
		return "the SOCKS5 request has an address of an unknown type"
	}
	return "the SOCKS5 request is not one of version 5"
}

var errNoSOCKSMethod = errors.New("SOCKS5 is served without authentication alone")

// serveSOCKS serves a client that has sent the version, and has a deadline for the rest.
func (p *proxy) serveSOCKS(ctx context.Context, c *client) {
	host, port, err := readSOCKS(c)
	if err != nil {
		var reply socksError
		known := errors.As(err, &reply)
		if known || errors.Is(err, errNoSOCKSMethod) {
			p.deny(c, protocolSOCKS5, host, port, err.Error())
		}
		if known {
			goodbye(c, socksReply(byte(reply)))
		}
		c.Close()
		return
	}
	t, err := p.newTry(protocolSOCKS5, host, port)
	var l *link
	if err == nil && !t.opens() {
		l, err = t.connect(ctx)
	}
	if err != nil {
		goodbye(c, socksReply(replyTo(err)))
		return
	}
	_ = c.SetReadDeadline(time.Time{}) // an error comes with the next read, too
	if _, err := c.Write(socksReply(socksSucceeded)); err != nil {
		if c.Close(); l != nil {
			l.Close()
		}
		return
	}
	t.tunnel(ctx, c, l)
}

// readSOCKS reads methods and a request, and returns what it asks for. It reads no byte
// beyond.
func readSOCKS(c io.ReadWriter) (host, port string, err error) {
	var b [256]byte
	read := func(n int) []byte {
		if err == nil {
			_, err = io.ReadFull(c, b[:n])
		}
		return b[:n]
	}
	methods := read(int(read(1)[0]))
	switch {
	case err != nil:
		return "", "", err
	case !slices.Contains(methods, socksNoAuth):
		_, _ = c.Write([]byte{socksVersion, socksNoMethod}) // the client leaves
		return "", "", errNoSOCKSMethod
	}
	if _, err := c.Write([]byte{socksVersion, socksNoAuth}); err != nil {
		return "", "", err
	}
	head := read(4)
	version, command, kind := head[0], head[1], head[3]
	switch {
	case err != nil:
		return "", "", err
	case version != socksVersion:
		return "", "", socksError(socksFailed)
	}
	switch kind {
	case socksIPv4, socksIPv6:
		addr, _ := netip.AddrFromSlice(read(map[byte]int{socksIPv4: 4, socksIPv6: 16}[kind]))
		host = addr.String()
	case socksName:
		host = string(read(int(read(1)[0])))
	default:
		return "", "", socksError(socksNoAddressType)
	}
	port = strconv.Itoa(int(binary.BigEndian.Uint16(read(2))))
	if err == nil && command != socksConnect {
		err = socksError(socksNoCommand)
	}
	return host, port, err
}

// socksReply returns a reply, without the address from which the proxy has connected.
func socksReply(code byte) []byte {
	return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
}

// replyTo returns the reply for an error of a try.
func replyTo(err error) byte {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case isRefusal(err):
		return socksNotAllowed
	case errors.As(err, &dns) && dns.IsNotFound, errors.Is(err, syscall.EHOSTUNREACH):
		return socksHostUnreachable
	case errors.Is(err, syscall.ENETUNREACH):
		return socksNetUnreachable
	case errors.Is(err, syscall.ECONNREFUSED):
		return socksRefused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return socksTimedOut
	}
	return socksFailed
}
