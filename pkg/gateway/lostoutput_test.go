package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/podagent/podagent/pkg/gateway"
)

// A sandbox keeps the end of a large output alone. What is read of it says where it was in the
// whole, and a repeated request has the answer of the first one.
func TestOutputSaysWhereItIsAfterALoss(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	const all, text = 80_000_003, "0123456789abcde\n"
	body := fmt.Sprintf(`{"script":"yes 0123456789abcde | head -c %d"}`, all)
	key := "Idempotency-Key: " + uuid.Must(uuid.NewV7()).String()
	first := d.send("a", "POST", "/api/v1/sandboxes/job-1/exec", body, key)
	var ran gateway.Result
	if err := json.Unmarshal([]byte(first.text), &ran); err != nil {
		t.Fatal(err)
	}
	if ran.StdoutOmitted+int64(len(ran.Stdout)) != all {
		t.Errorf("the answer has %d bytes after %d, of %d", len(ran.Stdout), ran.StdoutOmitted, all)
	}
	if again := d.send("a", "POST", "/api/v1/sandboxes/job-1/exec", body, key); again.text != first.text {
		t.Errorf("a repeated request has another answer: %.120s… and not %.120s…", again.text, first.text)
	}
	for name, got := range map[string]answer{
		"output": d.send("a", "GET", "/api/v1/sandboxes/job-1/processes/"+ran.ExecID+"/output", ""),
		"exec":   d.send("a", "POST", "/api/v1/sandboxes/job-1/exec", body, key, "Accept: application/jsonl"),
	} {
		var at, lost int64
		for line := range strings.Lines(got.text) {
			var l gateway.OutputLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(name, err)
			}
			if l.Type != "stdout" {
				continue
			}
			if lost == 0 {
				lost, at = *l.Offset, *l.Offset
			}
			if *l.Offset != at || !strings.HasPrefix(l.Data, text[at%int64(len(text)):]) {
				t.Fatalf("%s: %.20q… is at offset %d, and %d follows", name, l.Data, *l.Offset, at)
			}
			at += int64(len(l.Data))
		}
		if lost == 0 || at != all {
			t.Errorf("%s is from %d to %d: want the end of %d bytes, from the first that is kept", name, lost, at, all)
		}
	}
}
