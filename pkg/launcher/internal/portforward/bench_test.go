package portforward

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	tunnel "k8s.io/client-go/tools/portforward"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// clients are this package and the stock client, by each protocol, so that one
// run has what the ratios need.
var clients = []struct {
	name, protocol string
	dial           func(testing.TB, *cluster) io.ReadWriter
}{
	{"own", "WebSocket", dialOwn},
	{"stock", "WebSocket", dialStockWebSocket},
	{"own", "SPDY", dialOwn},
	{"stock", "SPDY", dialStockSPDY},
}

func eachClient(b *testing.B, serve func(net.Conn), bench func(*testing.B, io.ReadWriter)) {
	b.Helper()
	for _, client := range clients {
		b.Run(client.protocol+"/"+client.name, func(b *testing.B) {
			c := newCluster(b, listen(b, serve))
			protocols(b)[client.protocol](c)
			bench(b, client.dial(b, c))
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

func dialOwn(tb testing.TB, c *cluster) io.ReadWriter { return dial(tb, c) }

func dialStockWebSocket(tb testing.TB, c *cluster) io.ReadWriter {
	tb.Helper()
	d := newDialer(tb, c)
	dialer, err := tunnel.NewSPDYOverWebsocketDialerForStreaming(podURL(tb, d), c.config())
	if err != nil {
		tb.Fatal(err)
	}
	return stockStream(tb, dialer)
}

func dialStockSPDY(tb testing.TB, c *cluster) io.ReadWriter {
	tb.Helper()
	d := newDialer(tb, c)
	transport, upgrader, err := clientspdy.RoundTripperFor(rest.CopyConfig(c.config()))
	if err != nil {
		tb.Fatal(err)
	}
	return stockStream(tb, clientspdy.NewDialerForStreaming(
		upgrader, &http.Client{Transport: transport}, http.MethodPost, podURL(tb, d)))
}

func stockStream(tb testing.TB, dialer httpstream.Dialer) io.ReadWriter {
	tb.Helper()
	conn, _, err := dialer.Dial(portforward.PortForwardV1Name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	var stream httpstream.Stream
	for _, kind := range []string{corev1.StreamTypeError, corev1.StreamTypeData} {
		headers := http.Header{}
		headers.Set(corev1.StreamType, kind)
		headers.Set(corev1.PortHeader, "1")
		headers.Set(corev1.PortForwardRequestIDHeader, "0")
		if stream, err = conn.CreateStream(headers); err != nil {
			tb.Fatal(err)
		}
	}
	return stream
}

func podURL(tb testing.TB, d *Dialer) *url.URL {
	tb.Helper()
	t, err := d.target("ns", "pod", 1)
	if err != nil {
		tb.Fatal(err)
	}
	return t.url
}
