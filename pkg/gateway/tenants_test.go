package gateway_test

import (
	"fmt"
	"testing"
	"time"
)

func TestKeysAreReadAgain(t *testing.T) {
	d := newDoor(t)
	status := func(token string) int { return d.send(token, "GET", "/api/v1/sandboxes", "").StatusCode }
	if got := status("a"); got != 200 {
		t.Errorf("a key: %d", got)
	}
	d.writeKeys(fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %s\n      expires: %s\n    - sha256: %s\n      expires: %s\n    - sha256: %s\n", hashOf("a"),
		time.Now().Add(-time.Second).Format(time.RFC3339), hashOf("later"), time.Now().Add(time.Hour).Format(time.RFC3339), hashOf("b")))
	for token, want := range map[string]int{"a": 401, "later": 200, "b": 200, "o": 401, "": 401} {
		if got := status(token); got != want {
			t.Errorf("key %q: %d, want %d", token, got, want)
		}
	}
	for _, wrong := range []string{"tenants: [", "tenants:\n  Acme: {}\n", "tenants:\n  acme:\n    keys:\n    - sha256: short\n", "tenant: {}\n"} {
		d.writeKeys(wrong)
		if got := status("b"); got != 503 {
			t.Errorf("after %q: %d, want 503", wrong, got)
		}
	}
	d.writeKeys("tenants:\n  acme:\n    keys:\n    - sha256: " + hashOf("b") + "\n")
	if got := status("b"); got != 200 {
		t.Errorf("after the keys are mended: %d", got)
	}
}
