package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// A connection may break at a write before the server cancels the call. A command with a key outlives that, too.
func TestCommandWithAKeyOutlivesAWriteThatFails(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	const lines = "Accept: application/jsonl"
	const command = `{"script":"seq 1000; until [ -e go ]; do sleep 0.01; done; seq 1000; echo ran > ran"}`
	key := "Idempotency-Key: " + uuid.Must(uuid.NewV7()).String()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.gateway.ServeHTTP(breaking{w}, r) }))
	defer broken.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, broken.URL+job+"/exec", strings.NewReader(command))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"Authorization: Bearer a", "Content-Type: application/json", lines, key} {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the answer is whole")
	}
	d.send("a", http.MethodPut, job+"/files?path=go", "")
	again := d.send("a", http.MethodPost, job+"/exec", command, lines, key)
	last := ""
	for line := range strings.Lines(again.text) {
		last = line
	}
	if !strings.Contains(last, `"reason":"exited","code":0`) {
		t.Errorf("it ended with %s", last)
	}
}

// breaking is a connection that is broken once an answer has begun, which nobody has noticed yet.
type breaking struct{ http.ResponseWriter }

func (b breaking) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (b breaking) Write(p []byte) (int, error) {
	if strings.Contains(string(p), `"type":"start"`) {
		return b.ResponseWriter.Write(p)
	}
	return 0, unix.EPIPE
}
