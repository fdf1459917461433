package gateway_test

import (
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
)

func TestLinksOfAGatewayByTLSAreHTTPS(t *testing.T) {
	for secure, want := range map[bool]string{false: `"url":"http://8080-job-1--acme.localhost:8443/?`, true: `"url":"https://8080-job-1--acme.localhost:8443/?`} {
		d := newDoor(t, func(o *gateway.Options) { o.Domain, o.TLS = "localhost:8443", secure })
		d.sandbox()
		if got := d.send("a", "POST", job+"/ports/8080/link", "{}"); !strings.Contains(got.text, want) {
			t.Errorf("%d %s, not %s", got.StatusCode, got.text, want)
		}
	}
}

func TestGatewayIsNotReadyWithoutItsKeys(t *testing.T) {
	links := &gateway.LinkKeys{Path: t.TempDir() + "/none"}
	d := newDoor(t)
	if err := d.gateway.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.writeKeys("nonsense")
	d.eventually("the file is read again", func() bool { return d.gateway.Ready(t.Context()) != nil })
	other := newDoor(t, func(o *gateway.Options) { o.LinkKeys = links })
	if err := other.gateway.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "keys of links") {
		t.Error(err)
	}
}
