package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// zeroes is a body of zeros.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// BenchmarkOpenedBesideDial downloads from a host by Dial, by the way out without TLS, by a
// tunnel of TLS, and by TLS that is opened for a secret.
func BenchmarkOpenedBesideDial(b *testing.B) {
	if _, err := exec.LookPath("curl"); err != nil {
		b.Skip(err)
	}
	const size = 256 << 20
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.CopyN(w, zeroes{}, size)
	})
	sandbox := launchertest.Sandbox(b)
	v := newVault(b, inside)
	plain := httptest.NewServer(inside)
	b.Cleanup(plain.Close)
	var port int
	fmt.Sscanf(plain.URL, "http://127.0.0.1:%d", &port)
	v.let(b, sandbox, func(o *egress.Options) {
		o.Policy.Allow = append(o.Policy.Allow, policy(b, fmt.Sprintf("plain.example=127.0.0.1:%d", port), fmt.Sprintf("tunnel.example=127.0.0.1:%d", v.port)).Allow...)
	})
	b.Run("Dial", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			conn, err := sandbox.Dial(b.Context(), port)
			if err != nil {
				b.Fatal(err)
			}
			fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
			if n, err := io.Copy(io.Discard, conn); n < size || err != nil {
				b.Fatal(n, err)
			}
			conn.Close()
		}
	})
	for name, args := range map[string]string{
		"plain":         fmt.Sprintf("http://plain.example:%d", port),
		"tunnel":        fmt.Sprintf("-k --http1.1 -u me:%s https://tunnel.example:%d", secretValue, v.port),
		"opened HTTP/1": "--http1.1 -u me:$TOKEN " + v.url(),
		"opened HTTP/2": "-u me:$TOKEN " + v.url(),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if got := in(b, sandbox, "curl -sSf -o /dev/null -w %{size_download} "+args); strings.TrimSpace(got) != fmt.Sprint(size) {
					b.Fatal(got)
				}
			}
		})
	}
}
