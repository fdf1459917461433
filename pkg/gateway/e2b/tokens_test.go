package e2b_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/e2b"
)

// running is the status of the health of a sandbox.
func (d *door) running(s sandbox) int { return d.envd(s, "GET", "/health", "").StatusCode }

func TestTokenOpensItsSandboxAlone(t *testing.T) {
	d := newDoor(t)
	one, two := d.create(`{}`), d.create(`{}`)
	if d.running(one) != http.StatusNoContent || d.running(two) != http.StatusNoContent {
		t.Fatal("the tokens do not open their own sandboxes")
	}
	name, _, _ := strings.Cut(one.SandboxID, "--")
	if got := d.running(sandbox{SandboxID: name, EnvdAccessToken: one.EnvdAccessToken}); got != http.StatusNoContent {
		t.Errorf("by the sandbox's name alone: %d", got)
	}
	for what, s := range map[string]sandbox{
		"another sandbox":                                   {SandboxID: two.SandboxID, EnvdAccessToken: one.EnvdAccessToken},
		"another tenant's sandbox":                          {SandboxID: name + "--other", EnvdAccessToken: one.EnvdAccessToken},
		"a sandbox of another's, with a token that says so": {SandboxID: name + "--other", EnvdAccessToken: strings.Replace(one.EnvdAccessToken, "acme.", "other.", 1)},
		"no sandbox that there is":                          {SandboxID: "missing", EnvdAccessToken: one.EnvdAccessToken},
		"no sandbox that there could be":                    {SandboxID: "../x", EnvdAccessToken: one.EnvdAccessToken},
		"nothing":                                           {SandboxID: one.SandboxID, EnvdAccessToken: "x"},
		"nothing, without a token":                          {SandboxID: one.SandboxID},
		"nothing, as a key":                                 {SandboxID: one.SandboxID, EnvdAccessToken: key},
	} {
		if got := d.running(s); got != http.StatusUnauthorized {
			t.Errorf("a token that opens %s: %d", what, got)
		}
	}
	for _, headers := range []string{"X-API-KEY: ", "Authorization: Bearer "} {
		if got := d.send("GET", "/v2/sandboxes", "", headers+one.EnvdAccessToken); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("it opens the control plane: %d %s", got.StatusCode, got.text)
		}
	}
	if got := d.send("GET", "/api/v1/sandboxes", "", "Authorization: Bearer "+one.EnvdAccessToken); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("it opens REST: %d %s", got.StatusCode, got.text)
	}
}

func TestTokenEndsWithItsKey(t *testing.T) {
	d := newDoor(t)
	s := d.create(`{}`)
	var byOther sandbox
	got := d.send("POST", "/v2/sandboxes/"+s.SandboxID+"/connect", "", "X-API-KEY: "+otherKey)
	decode(t, got.text, &byOther)
	if byOther.EnvdAccessToken == s.EnvdAccessToken {
		t.Fatal("two keys have the same token")
	}
	d.writeKeys(otherKey)
	if d.running(s) != http.StatusUnauthorized || d.running(byOther) != http.StatusNoContent {
		t.Errorf("after the key was revoked: %d, by another key's token %d", d.running(s), d.running(byOther))
	}
}

func TestAnyGatewayTakesATokenAndMakesTheSame(t *testing.T) {
	links := filepath.Join(t.TempDir(), "links")
	var options gateway.Options
	write := func(keys string) {
		t.Helper()
		if err := os.WriteFile(links, []byte(keys), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := strings.Repeat("1", 32)+"\n", strings.Repeat("2", 32)+"\n"
	write(first)
	d := newDoor(t, func(o *gateway.Options) { o.LinkKeys = &gateway.LinkKeys{Path: links}; options = *o })
	s := d.create(`{}`)
	write(second + first)
	options.LinkKeys = &gateway.LinkKeys{Path: links}
	options.Faces = []gateway.Face{&e2b.Face{}}
	rotated := d.beside(options)
	if got := rotated.running(s); got != http.StatusNoContent {
		t.Errorf("by an older key of links: %d", got)
	}
	write(first)
	options.LinkKeys = &gateway.LinkKeys{Path: links}
	same := d.beside(options)
	var again sandbox
	if same.call("GET", "/sandboxes/"+s.SandboxID, "", http.StatusOK, &again); again.EnvdAccessToken != s.EnvdAccessToken {
		t.Error("another gateway makes another token")
	}
	write(second)
	options.LinkKeys = &gateway.LinkKeys{Path: links}
	other := d.beside(options)
	if got := other.running(s); got != http.StatusUnauthorized {
		t.Errorf("without the key that signed it: %d", got)
	}
}
