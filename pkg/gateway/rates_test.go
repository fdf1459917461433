package gateway_test

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
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

// A tenant that holds all that it may keeps nobody else out.
func TestTenantsShareOfAGatewayIsBounded(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	list := func(token string) answer { return d.send(token, "GET", "/api/v1/sandboxes", "") }
	leave := d.takeShare()
	if got := list("a"); got.StatusCode != 429 || !strings.Contains(got.text, `"class":"streams"`) || got.Header.Get("Retry-After") == "" {
		t.Errorf("beyond its share: %d %v %s", got.StatusCode, got.Header, got.text)
	}
	if got := list("o"); got.StatusCode != 200 {
		t.Errorf("another tenant: %d %s", got.StatusCode, got.text)
	}
	d.writeKeys(acmeKeys(fmt.Sprintf("    streams: %d\n", gateway.DefaultStreams+1), "a"))
	if got := list("a"); got.StatusCode != 200 {
		t.Errorf("with a share of its own: %d %s", got.StatusCode, got.text)
	}
	d.writeKeys(acmeKeys("", "a"))
	leave()
	eventually(t, "room for the tenant", func() bool { return list("a").StatusCode == 200 })
}

// Who shares a gateway with nobody can have all of it.
func TestSoleTenantHasNoShare(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *gateway.Options) { o.Tenants = gateway.OneTenant{Name: "acme", Token: "a"} })
	defer d.takeShare()()
	if got := d.send("a", "GET", "/api/v1/sandboxes", ""); got.StatusCode != 200 {
		t.Errorf("beyond the share of one of many: %d %s", got.StatusCode, got.text)
	}
}

// takeShare has acme make as many requests as it may, until leave is called: their bodies do not come.
func (d *door) takeShare() (leave func()) {
	d.Helper()
	var leavers []func()
	for range gateway.DefaultStreams {
		conn := d.dial()
		d.Cleanup(func() { conn.Close() })
		leavers = append(leavers, func() { conn.Close() })
		fmt.Fprintf(conn, "POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", tokenA)
		const asked = "HTTP/1.1 100" // for the body
		line := make([]byte, len(asked))
		if _, err := io.ReadFull(conn, line); err != nil || string(line) != asked {
			d.Fatalf("%s: %v", line, err)
		}
	}
	return func() {
		for _, leave := range leavers {
			leave()
		}
	}
}
