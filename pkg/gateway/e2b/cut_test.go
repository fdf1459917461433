package e2b

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestCutRequestsLeaveNothing has callers of all kinds who go away in the middle.
func TestCutRequestsLeaveNothing(t *testing.T) {
	b := newBox(t)
	if err := b.sandbox.WriteFile(t.Context(), "large", make([]byte, 32<<20), 0); err != nil {
		t.Fatal(err)
	}
	running := b.open("Start", `{"process":{"cmd":"cat"},"stdin":true}`).started()
	running.leave()
	const form = "multipart/form-data; boundary=x"
	part := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cut\"\r\n\r\n" + strings.Repeat("x", 100_000)
	for _, c := range []struct{ request, kind, more, body string }{
		{"POST /files?path=cut", "application/octet-stream", "", strings.Repeat("x", 100_000)},
		{"POST /files?path=cut", "application/octet-stream", "Content-Encoding: gzip\r\n", gzipped("some text")[:12]},
		{"POST /files", form, "", part},
		{"POST /files", form, "", part[:30]},
		{"POST /files", form, "", ""},
		{"POST /filesystem.Filesystem/Remove", unaryType, "", `{"path":"large"`},
		{"POST /process.Process/Start", streamType, "", envelope(0, script("touch cut"))[:20]},
		{"POST /process.Process/Start", streamType, "Connect-Timeout-Ms: 100000\r\n", "\x00\x00"},
		{"POST /process.Process/StreamInput", streamType, "", envelope(0, fmt.Sprintf(`{"start":{"process":{"pid":%d}}}`, running.pid))},
		{"POST /process.Process/StreamInput", streamType, "", envelope(0, fmt.Sprintf(`{"start":{"process":{"pid":%d}}}`, running.pid)) + "\x00\x00\x00"},
		{"POST /process.Process/Connect", streamType, "", envelope(0, of(running.pid))},
		{"POST /filesystem.Filesystem/WatchDir", streamType, "", envelope(0, `{"path":"."}`)},
		{"GET /files?path=large", "text/plain", "", ""},
	} {
		b.cut(c.request, c.kind, c.more, c.body)
	}
	b.eventually("all requests have ended", func() bool { return served() == 0 })
	b.eventually("the workdir is as it was", func() bool {
		entries, err := os.ReadDir(b.sandbox.Workdir)
		return err == nil && len(entries) == 1 && entries[0].Name() == "large"
	})
	if all := b.running(); len(all) != 1 || all[running.pid].PID == 0 {
		t.Errorf("there run %v", all)
	}
	if code, text := b.call("SendInput", fmt.Sprintf(`{"process":{"pid":%d},"input":{"stdin":"eAo="}}`, running.pid)); code != 200 {
		t.Errorf("nobody gets the turn to send input any more: %d %s", code, text)
	}
}

// cut sends a request that has more to come, and closes the connection once something was answered, or
// without waiting if nothing can be.
func (b *box) cut(request, kind, more, body string) {
	b.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	length := len(body)
	answers := strings.HasPrefix(request, "GET") || strings.HasSuffix(request, "/Connect") || strings.HasSuffix(request, "/WatchDir")
	if !answers {
		length += 1000
	}
	head := fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n%s\r\n", request, strings.Join(b.headers(kind), "\r\n"), length, more)
	if _, err := conn.Write([]byte(head + body)); err != nil {
		b.Fatal(err)
	}
	if answers {
		if _, err := conn.Read(make([]byte, 100)); err != nil {
			b.Fatal(err)
		}
	}
}

// served returns how many requests gateways of this process serve.
func served() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "gateway.(*Gateway).ServeHTTP(")
}
