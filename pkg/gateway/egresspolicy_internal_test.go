package gateway

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/podapi/wayout"
)

func TestTenantsWayOutIsNoLessClosedThanTheGateways(t *testing.T) {
	network, landlock := wayout.Mode(wayout.Network), wayout.Mode(wayout.Landlock)
	for what, test := range map[string]struct {
		tenant    Egress
		all, want wayout.Config
	}{
		"nothing said":             {want: wayout.Config{Mode: wayout.Auto}},
		"off for others":           {all: wayout.Config{Mode: wayout.Off}, want: wayout.Config{Mode: wayout.Auto}},
		"the gateway's mode":       {all: wayout.Config{Mode: landlock}, want: wayout.Config{Mode: landlock, Require: wayout.Landlock}},
		"a weaker mode":            {Egress{Mode: wayout.Mode(wayout.Advisory)}, wayout.Config{Mode: network}, wayout.Config{Mode: wayout.Auto, Require: wayout.Network}},
		"a weaker requirement":     {Egress{Require: wayout.Landlock}, wayout.Config{Mode: wayout.Auto, Require: wayout.Network}, wayout.Config{Mode: wayout.Auto, Require: wayout.Network}},
		"a stronger requirement":   {Egress{Require: wayout.Network}, wayout.Config{Mode: wayout.Auto, Require: wayout.Landlock}, wayout.Config{Mode: wayout.Auto, Require: wayout.Network}},
		"ports of both, each once": {Egress{LocalPorts: []uint16{2, 3}}, wayout.Config{Mode: wayout.Auto, Ports: []uint16{1, 2}}, wayout.Config{Mode: wayout.Auto, Ports: []uint16{1, 2, 3}}},
	} {
		if diff := cmp.Diff(test.want, test.tenant.config(test.all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
