package checkout

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

func TestOfAMillionRefsOnlyThoseThatMatterAreKept(t *testing.T) {
	f := refs{wanted: names("v1"), ids: map[string]string{}}
	list := &lines{use: f.add}
	fmt.Fprint(list, "a\tHEAD\n")
	for i := range 1_000_000 { // in descending order, so that each is likelier than the last
		fmt.Fprintf(list, "a\trefs/heads/b%07d\n", 1_000_000-i)
	}
	fmt.Fprint(list, "a\trefs/heads/master\na\trefs/heads/ma", "in\nb\trefs/tags/v1\nc\trefs/tags/v1^{}\n")
	fmt.Fprint(list, "d\trefs/heads/"+strings.Repeat("x", 1<<20), "\nd\trefs/heads/v\n")
	if len(f.ids) > 4 || f.head != "refs/heads/main" || cap(list.partial) > 2*maxLine {
		t.Errorf("%d refs, HEAD is %s, %d bytes", len(f.ids), f.head, cap(list.partial))
	}
	if rev, err := f.find("v1"); err != nil || rev.ref != "refs/tags/v1" || f.commit(rev) != "c" {
		t.Errorf("%+v, %v", rev, err)
	}
}

func TestHEADOfServersThatReportOnlyItsCommit(t *testing.T) {
	for list, want := range map[string]string{
		"a\tHEAD\nb\trefs/heads/main\na\trefs/heads/x\na\trefs/heads/y\n":                          "refs/heads/x",
		"a\tHEAD\na\trefs/heads/a\na\trefs/heads/main\na\trefs/heads/master\n":                     "refs/heads/main",
		"a\tHEAD\na\trefs/heads/a\na\trefs/heads/master\na\trefs/heads/z\n":                        "refs/heads/master",
		"ref: refs/heads/z\tHEAD\na\tHEAD\na\trefs/heads/main\na\trefs/heads/z\nb\trefs/heads/q\n": "refs/heads/z",
	} {
		f := refs{ids: map[string]string{}}
		fmt.Fprint(&lines{use: f.add}, list)
		if rev, err := f.find(""); err != nil || rev.ref != want || f.commit(rev) != "a" {
			t.Errorf("%q: %+v at %q, %v", list, rev, f.commit(rev), err)
		}
	}
}

func TestMessagesKeepTheirBeginningAndEnd(t *testing.T) {
	var e ends
	for i := range 1000 {
		fmt.Fprintf(&e, "%04d ", i)
	}
	if s := e.String(); !strings.HasPrefix(s, "0000 0001 ") || !strings.HasSuffix(s, "0998 0999 ") || len(s) > maxMessage+10 {
		t.Errorf("%d bytes: %s", len(s), s)
	}
	var short ends
	fmt.Fprint(&short, strings.Repeat("x", maxMessage))
	if short.String() != strings.Repeat("x", maxMessage) {
		t.Errorf("got %s", &short)
	}
	var h head
	h.Write(make([]byte, maxOutput-1))
	if n, err := h.Write(make([]byte, 10)); n != 10 || err != nil || len(h) != maxOutput {
		t.Errorf("%d, %v, %d", n, err, len(h))
	}
}

// runIn returns a run in a new directory, with this environment.
func runIn(t *testing.T, env ...string) *run {
	dir := t.TempDir()
	o := Options{Dir: dir, URL: "https://git.example/one.git", Username: "me", Password: "a/b c+d", Env: env, Relays: &Relays{}}
	t.Cleanup(o.Relays.Close)
	return &run{Options: o, files: fsops.New(dir)}
}

func TestRelayFindsProxyAndAuthoritiesInTheSandboxsEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://agents.example")
	r := runIn(t, "https_proxy=http://proxy.example:8080", "NO_PROXY=internal.example")
	req := func(to string) *http.Request {
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: u}
	}
	if u, err := r.proxy()(req(r.URL)); err != nil || u == nil || u.Host != "proxy.example:8080" {
		t.Errorf("%v, %v", u, err)
	}
	if u, err := r.proxy()(req("https://internal.example/x")); err != nil || u != nil {
		t.Errorf("%v, %v", u, err)
	}
	for _, name := range []string{"GIT_SSL_CAINFO", "SSL_CERT_FILE"} {
		r := runIn(t, name+"=authorities.pem")
		if _, err := r.newRelay(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s names a missing file: %v", name, err)
		}
		if err := r.create(filepath.Join(r.Dir, "authorities.pem"), "", 0o600); err != nil {
			t.Fatal(err)
		}
		if config, err := r.tlsConfig(t.Context()); err != nil || config == nil || config.RootCAs == nil {
			t.Errorf("%s: %v, %v", name, config, err)
		}
	}
}

func TestRelayTakesThePasswordOutOfRefusalsInEachForm(t *testing.T) {
	y, err := runIn(t).newRelay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pair := base64.StdEncoding.EncodeToString([]byte("me:a/b c+d"))
	text := y.redact("a/b c+d, " + pair + ", " + strings.TrimRight(pair, "=") + ", a%2Fb+c%2Bd, a%2Fb%20c+d.")
	if want := strings.Repeat("[REDACTED], ", 4) + "[REDACTED]."; text != want {
		t.Errorf("got %s", text)
	}
}

// Anybody in the sandbox can connect to the relay.
func TestRelayHoldsFewConnections(t *testing.T) {
	r := runIn(t)
	stop, err := r.startRelay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	address, _ := url.Parse(r.relay.url)
	var conns []net.Conn
	for range 4 * maxRelayed {
		conn, err := net.Dial("tcp", address.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	last := conns[len(conns)-1]
	last.SetDeadline(time.Now().Add(hung))
	if _, err := last.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("one too many: %v", err)
	}
	for _, conn := range conns {
		conn.Close()
	}
	// Then there is room again.
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		resp, err := http.Get(r.relay.url)
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func isTimeout(err error) bool {
	failed, ok := errors.AsType[net.Error](err)
	return ok && failed.Timeout()
}

// The sandbox's code can put a FIFO wherever it can write.
func TestFIFOsHoldUpNothing(t *testing.T) {
	r := runIn(t)
	fifo := filepath.Join(r.Dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.readState(t.Context(), fifo); !errors.Is(err, fsops.ErrNotRegular) {
		t.Errorf("reading: %v", err)
	}
	if err := r.create(fifo, "x", 0o600); err == nil {
		t.Error("writing: no error")
	}
	r.Env = []string{"SSL_CERT_FILE=" + fifo}
	if _, err := r.tlsConfig(t.Context()); !errors.Is(err, fsops.ErrNotRegular) {
		t.Errorf("authorities: %v", err)
	}
}
