package gateway_test

import (
	"strconv"
	"strings"
	"testing"
)

func TestRateHoldsForATenant(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.writeKeys(acmeKeys("    rate: {requests_per_second: 0.001, burst: 3}\n", "a", "b") + "  other:\n    keys:\n    - sha256: " + hashOf("o") + "\n")
	list := func(token string, headers ...string) answer {
		return d.send(token, "GET", "/api/v1/sandboxes", "", headers...)
	}
	if got := list("a"); got.StatusCode != 200 {
		t.Errorf("the first: %d %s", got.StatusCode, got.text)
	}
	if got := list("b", "X-Sandbox-ID: none"); got.StatusCode != 404 {
		t.Errorf("the second: %d %s", got.StatusCode, got.text)
	}
	if got := list("b"); got.StatusCode != 200 {
		t.Errorf("the third: %d %s", got.StatusCode, got.text)
	}
	for name, got := range map[string]answer{"a call": list("a"), "a routed request": list("a", "X-Sandbox-ID: none")} {
		wait, err := strconv.Atoi(got.Header.Get("Retry-After"))
		if got.StatusCode != 429 || !strings.Contains(got.text, `"class":"rate"`) || err != nil || wait < 1 || wait > 1000 {
			t.Errorf("%s too many: %d %v %s", name, got.StatusCode, got.Header, got.text)
		}
	}
	if got := list("o"); got.StatusCode != 200 {
		t.Errorf("another tenant: %d %s", got.StatusCode, got.text)
	}
	d.writeKeys(acmeKeys("", "a"))
	if got := list("a"); got.StatusCode != 200 {
		t.Errorf("when the bound is gone: %d %s", got.StatusCode, got.text)
	}
}

func TestWrongTokensAreSlowedDownAndRightOnesAreNot(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	status := func(token string) int { return d.send(token, "GET", "/api/v1/sandboxes", "").StatusCode }
	if got := status("wrong"); got != 401 {
		t.Fatalf("a wrong token: %d", got)
	}
	eventually(t, "the bound", func() bool { return status("wrong") == 429 })
	if got := status("a"); got != 200 {
		t.Errorf("a right token beside wrong ones: %d", got)
	}
}
