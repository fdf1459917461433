package portforward

import (
	"context"
	"io"
	"net"
	"testing"
)

// clients are this package's and the stock client. The frames of the stock client
// are sent as they are, whole or gathered, so that one run has all that the ratios
// need.
var clients = []struct {
	name, protocol string
	dial           dialFunc
}{
	{"own", "WebSocket", dialOwn},
	{"stock", "WebSocket", stock(AsItIs)},
	{"stock-whole", "WebSocket", stock(Whole)},
	{"stock-gathered", "WebSocket", stock(Gathered)},
	{"own", "SPDY", dialOwn},
	{"stock", "SPDY", stock(AsItIs)},
	{"stock-whole", "SPDY", stock(Whole)},
	{"stock-gathered", "SPDY", stock(Gathered)},
}

func dialOwn(tb testing.TB, d *Dialer) net.Conn {
	tb.Helper()
	conn, err := d.Dial(context.Background(), "ns", "pod", 8080)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

func stock(under Under) dialFunc {
	return func(tb testing.TB, d *Dialer) net.Conn {
		tb.Helper()
		conn, err := DialStock(context.Background(), d, under, "ns", "pod", 8080)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

func eachClient(b *testing.B, serve func(net.Conn), bench func(*testing.B, io.ReadWriter)) {
	b.Helper()
	for _, client := range clients {
		b.Run(client.protocol+"/"+client.name, func(b *testing.B) {
			c := newCluster(b, listen(b, serve))
			protocols(b)[client.protocol](c)
			bench(b, client.dial(b, newDialer(b, c)))
		})
	}
}

func BenchmarkRoundTrip64(b *testing.B) {
	eachClient(b, echo, func(b *testing.B, rw io.ReadWriter) {
		message := make([]byte, 64)
		for b.Loop() {
			if _, err := rw.Write(message); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(rw, message); err != nil {
				b.Fatal(err)
			}
		}
	})
}

const chunk = 32 << 10

func BenchmarkRead(b *testing.B) {
	serve := func(conn net.Conn) {
		for _, err := conn.Write(make([]byte, chunk)); err == nil; {
			_, err = conn.Write(make([]byte, chunk))
		}
	}
	eachClient(b, serve, func(b *testing.B, rw io.ReadWriter) {
		b.SetBytes(chunk)
		buf := make([]byte, chunk)
		for b.Loop() {
			if _, err := io.ReadFull(rw, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	discard := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	eachClient(b, discard, func(b *testing.B, rw io.ReadWriter) {
		b.SetBytes(chunk)
		buf := make([]byte, chunk)
		for b.Loop() {
			if _, err := rw.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
