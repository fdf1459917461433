package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// acmeKeys are a file of keys for acme alone, with more lines about it.
func acmeKeys(more string, tokens ...string) string {
	text := "tenants:\n  acme:\n" + more + "    keys:\n"
	for _, token := range tokens {
		text += "    - sha256: " + hashOf(token) + "\n"
	}
	return text
}

// begin sends a request by the key a, and returns its answer when that has begun.
func (d *door) begin(method, path, body string, headers ...string) *http.Response {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer a")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { r.Body.Close() })
	return r
}

// upTo reads until a text has come.
func (d *door) upTo(r io.Reader, text string) {
	d.Helper()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	d.Fatalf("there is no %s", text)
}

func TestRevokedKeyEndsWhatItStreams(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.writeKeys(acmeKeys("", "a", "b"))
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	const own, lines = "/api/v1/sandboxes/job-1", "Accept: application/jsonl"
	script := func(text string) string {
		body, _ := json.Marshal(map[string]string{"script": text})
		return string(body)
	}
	key := func() string { return "Idempotency-Key: " + uuid.Must(uuid.NewV7()).String() }

	command := d.begin("POST", own+"/exec", script("echo begun; sleep 1000"), lines)
	kept := d.begin("POST", own+"/exec", script("echo begun; until [ -e go ]; do sleep 0.1; done; echo > ran"), lines, key())
	changes := d.begin("GET", own+"/watch?path=.", "")
	d.upTo(command.Body, "begun")
	d.upTo(kept.Body, "begun")
	d.upTo(changes.Body, "event: ready")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "begun\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	routed := d.begin("GET", "/", "", "X-Sandbox-ID: job-1", "X-Sandbox-Port: "+portOf(server))
	d.upTo(routed.Body, "begun")
	waiting := make(chan answer, 1)
	go func() {
		waiting <- d.send("a", "POST", own+"/exec", script("echo > waits; until [ -e go ]; do sleep 0.1; done"), key())
	}()
	eventually(t, "the command that is waited for", func() bool { return d.send("b", "GET", own+"/files?path=waits", "").StatusCode == 200 })

	d.writeKeys(acmeKeys("", "b"))
	for name, r := range map[string]*http.Response{"exec": command, "an exec with a key": kept, "watch": changes, "a routed request": routed} {
		if rest, err := io.ReadAll(r.Body); err == nil || strings.Contains(string(rest), `"exit"`) {
			t.Errorf("%s ended as if it were whole: %q", name, rest)
		}
	}
	if got := <-waiting; got.StatusCode != 401 || !strings.Contains(got.text, `"class":"unauthenticated"`) {
		t.Errorf("what had no answer yet: %d %s", got.StatusCode, got.text)
	}
	eventually(t, "the end of the command without a key", func() bool {
		return regexp.MustCompile(`"script":"echo begun; sleep 1000"[^}]*"exit":{`).MatchString(d.send("b", "GET", own+"/processes", "").text)
	})
	d.send("b", "PUT", own+"/files?path=go", "")
	eventually(t, "the end of the command with a key", func() bool { return d.send("b", "GET", own+"/files?path=ran", "").StatusCode == 200 })
}

// upgraded opens a connection that a server in the sandbox web has switched to another protocol.
func (d *door) upgraded(server *httptest.Server) net.Conn {
	d.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Sandbox-ID: job-1\r\nX-Sandbox-Port: %s\r\nAuthorization: Bearer a\r\nConnection: Upgrade\r\nUpgrade: mute\r\n\r\n", portOf(server))
	if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		d.Fatalf("the answer is %v: %v", answer, err)
	}
	return conn
}

// The server keeps its end open, and neither sends nor ends anything.
func TestRevokedKeyClosesAConnectionThatWasUpgraded(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.writeKeys(acmeKeys("", "a"))
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	closed := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mute\r\n\r\n")
		_, err = buffered.ReadByte()
		closed <- err
	}))
	defer server.Close()
	conn := d.upgraded(server)
	d.writeKeys(acmeKeys("", "b"))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("read %d bytes: %v", n, err)
	}
	if err := <-closed; err == nil {
		t.Error("the server got a byte")
	}
}

// flood is a server that switches to a protocol in which it alone speaks, without an end.
func flood(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mute\r\n\r\n")
	for part := make([]byte, 1<<20); err == nil; {
		_, err = conn.Write(part)
	}
}

// Somebody who neither reads nor goes would hold the stream, if only its context ended.
func TestRevokedKeyEndsAStreamThatNobodyReads(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(flood))
	t.Cleanup(server.Close)
	for name, head := range map[string]string{
		"a file":     "GET /api/v1/sandboxes/job-1/files?path=large HTTP/1.1\r\n",
		"an upgrade": "GET / HTTP/1.1\r\nX-Sandbox-ID: job-1\r\nX-Sandbox-Port: " + portOf(server) + "\r\nConnection: Upgrade\r\nUpgrade: mute\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			d.writeKeys(acmeKeys("    streams: 1\n", "a", "b"))
			d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
			d.send("a", "POST", "/api/v1/sandboxes/job-1/exec", `{"script":"head -c 67108864 /dev/zero > large"}`)
			conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, head, "Host: x\r\nAuthorization: Bearer a\r\n\r\n")
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			list := func() answer { return d.send("b", "GET", "/api/v1/sandboxes", "") }
			if got := list(); got.StatusCode != 429 || !strings.Contains(got.text, `"class":"streams"`) || got.Header.Get("Retry-After") == "" {
				t.Fatalf("beside a stream: %d %v %s", got.StatusCode, got.Header, got.text)
			}
			d.writeKeys(acmeKeys("    streams: 1\n", "b"))
			eventually(t, "the end of the stream", func() bool { return list().StatusCode == 200 })
		})
	}
}
