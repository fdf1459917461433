package sshport

import (
	"fmt"
	"testing"
)

func TestClientsThatAreToldWhyTheyMayNotStayAreFew(t *testing.T) {
	var r refusals
	var clients []*testLogin
	var done []func()
	for range maxRefusals + 2 {
		c := &testLogin{}
		clients, done = append(clients, c), append(done, r.begin(c, "one"))
	}
	if !clients[0].closed || !clients[1].closed || clients[2].closed || r.all.Len() != maxRefusals {
		t.Errorf("%d are told", r.all.Len())
	}
	for _, d := range done {
		d()
	}
	if r.all.Len() != 0 {
		t.Errorf("%d count after their end", r.all.Len())
	}
}

func TestATenantsRefusedClientsCostNoOtherItsReason(t *testing.T) {
	var r refusals
	first := &testLogin{}
	defer r.begin(first, "quiet")()
	var many []*testLogin
	var done []func()
	for range 2 * maxRefusals {
		many = append(many, &testLogin{})
		done = append(done, r.begin(many[len(many)-1], "many"))
	}
	if first.closed || r.all.Len() != maxRefusals {
		t.Errorf("the other tenant's client is closed: %t, of %d", first.closed, r.all.Len())
	}
	if !many[0].closed || many[len(many)-1].closed {
		t.Error("those of the tenant itself do not go by their age")
	}
	for i := range maxRefusals { // tenants that have one each
		newcomer := &testLogin{}
		defer r.begin(newcomer, fmt.Sprint(i))()
		if newcomer.closed {
			t.Errorf("newcomer %d is closed at once", i)
		}
	}
	if r.all.Len() != maxRefusals {
		t.Errorf("%d are told at a time", r.all.Len())
	}
	for _, d := range done {
		d()
	}
}
