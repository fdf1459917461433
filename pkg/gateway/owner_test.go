package gateway_test

import (
	"fmt"
	"testing"
)

func TestSandboxesSayWhoMadeThem(t *testing.T) {
	d := newDoor(t)
	d.writeKeys(fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - {name: ci, sha256: %s}\n    - {name: Ann's laptop, sha256: %s}\n  other:\n    keys:\n    - sha256: %s\n", hashOf("a"), hashOf("ann"), hashOf("o")))
	const list = "/api/v1/sandboxes"
	d.walk(
		step{"POST", list, `{"id":"job-1","labels":{"team":"red"}}`, nil, 201, ``},
		step{"GET", "~", "", nil, 200, `"owner":\{"tenant":"acme","key":"ci"\},"labels":\{"team":"red"\}`},
		step{"POST", list, `{"id":"job-2","labels":{"podagent.dev/owner-00":"xx"}}`, nil, 422, `reserved`},
		step{"POST", list, `{"id":"job-2","owner":{"tenant":"acme","key":"boss"}}`, nil, 422, `unexpected property`},
	)
	if got := d.send("ann", "POST", list, `{"id":"job-1"}`); got.StatusCode != 200 {
		t.Errorf("another key finds it with %d %s", got.StatusCode, got.text)
	}
	if got := d.send("ann", "POST", list, `{"id":"job-2"}`); got.StatusCode != 201 {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
	d.walk(step{"GET", list, "", nil, 200, `"id":"job-1",[^]]*"owner":\{"tenant":"acme","key":"ci"\}[^]]*"id":"job-2",[^]]*"owner":\{"tenant":"acme","key":"Ann's laptop"\}`})
	if got := d.send("o", "GET", list+"/job-1?idle=true", ""); got.StatusCode != 404 {
		t.Errorf("another tenant gets %d %s", got.StatusCode, got.text)
	}
	if got := d.send("o", "GET", list+"?idle=true", ""); got.text != `{"sandboxes":[]}`+"\n" {
		t.Errorf("another tenant lists %s", got.text)
	}
}
