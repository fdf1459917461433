package egress

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// download is a way to fetch the bytes of a source.
type download struct {
	name, args string
	size       int
}

// downloads has each way by which the proxy carries bytes, and by which they end.
func downloads(plain, secure, size int) (all []download) {
	for _, body := range []string{"length", "chunked", "close"} {
		all = append(
			all,
			download{body + " by a forwarded request", fmt.Sprintf("http://plain.test:%d/%s", plain, body), size},
			download{body + " by CONNECT", fmt.Sprintf("-p http://plain.test:%d/%s", plain, body), size},
			download{body + " by SOCKS5", fmt.Sprintf("-x ${HTTP_PROXY/http/socks5h} http://plain.test:%d/%s", plain, body), size},
			download{body + " over TLS", fmt.Sprintf("-k https://secure.test:%d/%s", secure, body), size},
		)
	}
	return all
}

// quarry is a source that a sandbox may download from.
type quarry struct {
	*source
	*cable
	ways  []download
	rules []string
}

func newQuarry(t testing.TB, size int) *quarry {
	t.Helper()
	q := &quarry{source: newSource(size), cable: newCable(t)}
	plain := serveHTTP(t, q.source.ServeHTTP)
	secure := serveHTTPS(t, newAuthority(t), q.source.ServeHTTP, "secure.test")
	q.ways = downloads(plain, secure, size)
	q.rules = []string{named("plain.test", plain), named("secure.test", secure)}
	return q
}

// farEnd serves the sandbox, by a client of its own on the cable.
func (q *quarry) farEnd(t testing.TB, generation uint64) {
	t.Helper()
	s, err := Serve(context.Background(), q.client(t), Options{Generation: generation, Policy: policyOf(t, q.rules...)})
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { s.Close() })
}

// fetch downloads in the sandbox. The error is curl's.
func (q *quarry) fetch(t testing.TB, d download) (all bool, err error) {
	t.Helper()
	var sum, errs bytes.Buffer
	cmd := q.Command(t.Context(), "bash", "-c", fmt.Sprintf("set -o pipefail; curl -sS --http1.1 %s'?size=%d' | sha256sum", d.args, d.size))
	cmd.Stdout, cmd.Stderr = &sum, &errs
	if err = cmd.Run(); err != nil && !strings.Contains(errs.String(), "curl: (") {
		t.Fatalf("%v: %s", err, &errs)
	}
	return strings.HasPrefix(sum.String(), q.sum(d.size)), err
}

// failsOrIsWhole reports a download that claims to have succeeded without all its bytes.
func (q *quarry) failsOrIsWhole(t *testing.T, d download) (err error) {
	t.Helper()
	all, err := q.fetch(t, d)
	if err == nil && !all {
		t.Error("it ended well without all its bytes")
	}
	return err
}

// startFarEnd starts a process that is a far end of the quarry's sandbox, and returns what kills it.
func (q *quarry) startFarEnd(t testing.TB) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), farEndSocket+"="+q.socket, farEndRules+"="+strings.Join(q.rules, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill() // it may have been killed already
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the far end: %v", err)
	}
	return kill
}
