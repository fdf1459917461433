package e2b_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestBothGenerationsMakeSandboxesAndKillThem(t *testing.T) {
	d := newDoor(t)
	for _, path := range []string{"/sandboxes", "/v2/sandboxes"} {
		var s sandbox
		d.call("POST", path, `{"templateID":"base","timeout":60,"envVars":{"A":"b"},"secure":true}`, http.StatusCreated, &s)
		if !regexp.MustCompile(`^s-[a-z0-9]{26}--acme$`).MatchString(s.SandboxID) || s.TemplateID != "base" || s.EnvdVersion == "" || s.EnvdAccessToken == "" || s.Domain != "sandboxes.test" {
			t.Errorf("%s: %+v", path, s)
		}
		var got struct{ SandboxID, State, EnvdAccessToken string }
		if d.call("GET", "/sandboxes/"+s.SandboxID, "", http.StatusOK, &got); got.SandboxID != s.SandboxID || got.State != "running" || got.EnvdAccessToken != s.EnvdAccessToken {
			t.Errorf("%s: it is %+v", path, got)
		}
		name, _, _ := strings.Cut(s.SandboxID, "--")
		d.call("GET", "/sandboxes/"+name, "", http.StatusOK, nil) // by the tenant's own name
		d.call("DELETE", "/sandboxes/"+s.SandboxID, "", http.StatusNoContent, nil)
		if got := d.call("DELETE", "/sandboxes/"+s.SandboxID, "", http.StatusNotFound, nil); !strings.Contains(got.text, `"code":404`) {
			t.Errorf("the second kill: %s", got.text)
		}
	}
}
