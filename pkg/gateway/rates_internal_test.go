package gateway

import (
	"testing"
)

// A tenant that holds all that it may keeps nobody else out. Who shares a gateway with nobody may have
// all of it.
func TestTenantsShareOfAGatewayIsBounded(t *testing.T) {
	l := loads{byTenant: map[string]*load{}}
	var leave func()
	for range defaultStreams {
		var err error
		if leave, err = l.enter("acme", Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.enter("acme", Policy{}); err == nil {
		t.Error("it gets more than its share")
	}
	for tenant, policy := range map[string]Policy{
		"other": {}, publicLoad + "acme": {},
		"acme": {Streams: defaultStreams + 1},
	} {
		if _, err := l.enter(tenant, policy); err != nil {
			t.Errorf("%s with %d streams: %v", tenant, policy.Streams, err)
		}
	}
	if _, err := l.enter("acme", everything); err != nil {
		t.Errorf("the only tenant: %v", err)
	}
	for range 3 {
		leave()
	}
	if _, err := l.enter("acme", Policy{}); err != nil {
		t.Errorf("after some have left: %v", err)
	}
}
