package gateway_test

import (
	"fmt"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
)

func TestCallerIsToldWhoseTheTokenIs(t *testing.T) {
	d := newDoor(t)
	d.writeKeys(fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - {name: ci, sha256: %s}\n  other:\n    keys:\n    - sha256: %s\n", hashOf("a"), hashOf("o")))
	for token, want := range map[string]struct {
		status int
		text   string
	}{
		"a":     {200, `{"tenant":"acme","key":"ci"}` + "\n"},
		"o":     {200, fmt.Sprintf(`{"tenant":"other","key":%q}`+"\n", hashOf("o")[:8])},
		"wrong": {401, `{"title":"Unauthorized","status":401,"detail":"the token is not valid","class":"unauthenticated"}` + "\n"},
	} {
		if got := d.send(token, "GET", "/api/v1/whoami", ""); got.StatusCode != want.status || got.text != want.text {
			t.Errorf("%s: %d %s", token, got.StatusCode, got.text)
		}
	}
	d.walk(
		step{"GET", "/api/v1/whoami?tenant=other", "", nil, 422, "unknown query parameter"},
		step{"POST", "/api/v1/whoami", "{}", nil, 405, "must be one of GET"},
	)
}

func TestOnlyTokenOfAGatewayHasNoKey(t *testing.T) {
	d := newDoor(t, func(o *gateway.Options) { o.Tenants = gateway.OneTenant{Name: "main", Token: "a"} })
	if got := d.send("a", "GET", "/api/v1/whoami", ""); got.text != `{"tenant":"main"}`+"\n" {
		t.Errorf("%s", got.text)
	}
}

func TestCallerIsToldWhetherSandboxesCanBePaused(t *testing.T) {
	d, _ := asleep(t, autoPause, hung)
	d.walk(step{"GET", "/api/v1/whoami", "", nil, 200, `"can_pause":true`})
}
