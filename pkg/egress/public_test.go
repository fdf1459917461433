package egress

import (
	"fmt"
	"strings"
	"testing"
)

// What names resolve to is known to the owner of the proxy alone.
func TestPublicDecisionNamesNoAddress(t *testing.T) {
	up := serveHTTP(t, nil)
	f := newFront(t, Options{Resolver: names{"inside.test": {"10.1.2.3"}}}, "inside.test", named("up.test", up))
	f.connect(t, "inside.test:443")
	f.connect(t, fmt.Sprintf("up.test:%d", up))
	for i, want := range []Decision{
		{Verdict: Denied, Rule: "inside.test", Reason: "inside.test resolves to an address that is private, and no rule names it", Allow: "inside.test=ADDRESS:443"},
		{Verdict: Allowed, Rule: fmt.Sprintf("up.test:%d", up)},
	} {
		d := f.decision(i)
		if text := fmt.Sprint(d.Rule, d.Reason, d.Allow, d.Address); !strings.Contains(text, "10.1.2.3") && !strings.Contains(text, "127.0.0.1") {
			t.Errorf("the owner sees %s", text)
		}
		got := d.Public()
		if text := fmt.Sprintf("%+v", got); strings.Contains(text, "10.1.2.3") || strings.Contains(text, "127.0.0.1") {
			t.Errorf("others see %s", text)
		}
		if got.Verdict != want.Verdict || got.Rule != want.Rule || got.Reason != want.Reason || got.Allow != want.Allow || got.Host != d.Host || got.ID != d.ID {
			t.Errorf("others see %+v, want %+v", got, want)
		}
	}
}
