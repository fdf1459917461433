package main

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

func TestEachEditorHasARuleForWhatItsServerDownloads(t *testing.T) {
	for _, e := range editors {
		if _, err := egress.ParseRule(e.rule()); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
}

// What a sandbox says of its workdir must not lead an editor to another host.
func TestNoPathLeadsAnEditorToAnotherHost(t *testing.T) {
	for _, at := range []string{"@evil.example/x", "x.evil.example", "//evil.example/x", ":22/x", "?x", "/../x", ""} {
		for _, e := range editors {
			for _, isDir := range []bool{false, true} {
				args := e.open("job-1.podagent", at, isDir)
				opened, err := url.Parse(args[len(args)-1])
				if err != nil || !slices.Contains([]string{"job-1.podagent", "ssh-remote+job-1.podagent"}, opened.Host) || opened.User != nil {
					t.Errorf("%s opens %q for %q: %v", e.name, args, at, err)
				}
			}
		}
	}
}

func TestCodeSaysWhatAnEditorDownloadsThatTheWayOutMayNotAllow(t *testing.T) {
	for _, c := range []struct {
		level   wayout.Level
		backend string
		want    string
	}{
		{wayout.Open, inKubernetes, ""},
		{wayout.Advisory, inKubernetes, ""},
		{wayout.Landlock, onThisHost, `"orchestrator egress job-1 --allow-host @vscode" lets it, while it runs`},
		{wayout.Network, inKubernetes, `downloads from update.code.visualstudio.com, `},
		{wayout.Network, throughGateway, "the rule @vscode lets it, in allow_hosts of the gateway's tenant"},
	} {
		var said bytes.Buffer
		a := &app{streams: streams{err: &said}}
		a.backend.Value = c.backend
		a.tellDownloads(&launcher.Sandbox{ID: "job-1", Egress: wayout.Info{Level: c.level}}, &editors[0])
		if got := said.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s, %s: %q", c.level, c.backend, got)
		}
	}
}

// The token of a gateway that is in the environment of this program alone does not reach ssh, which an
// editor starts that runs already.
func TestCodeSaysThatAnEditorDoesNotHaveTheToken(t *testing.T) {
	t.Setenv(gatewayTokenEnv, "0123456789abcdef")
	var said bytes.Buffer
	a := &app{streams: streams{err: &said}}
	a.backend.Value = throughGateway
	a.tellDownloads(&launcher.Sandbox{ID: "job-1"}, &editors[0])
	if !strings.Contains(said.String(), "give it in a file, by --gateway-token-file") || strings.Contains(said.String(), "0123") {
		t.Errorf("%q", said.String())
	}
}
