package flagvalue

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestUlimits(t *testing.T) {
	var got Rlimits
	for _, s := range []string{"nofile=1024", "nofile=1024:2048", "core=0:-1", "as=unlimited"} {
		if err := got.Set(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	want := Rlimits{
		{Resource: "nofile", Soft: 1024, Hard: 1024},
		{Resource: "nofile", Soft: 1024, Hard: 2048},
		{Resource: "core", Soft: 0, Hard: podapi.Unlimited},
		{Resource: "as", Soft: podapi.Unlimited, Hard: podapi.Unlimited},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, s := range []string{"", "nofile", "nofile=", "=1", "nofile=a", "nofile=1:", "nofile=:1", "nofile=2:1", "nofile=-1:5", "nofile=1:2:3", "nofile=-2"} {
		if err := new(Rlimits).Set(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

func TestSignalsOfLinux(t *testing.T) {
	for text, want := range map[string]int{
		"TERM": 15, "SIGTERM": 15, "term": 15, "sigkill": 9, "HUP": 1, "USR1": 10, "CHLD": 17, "SYS": 31, "9": 9, "64": 64,
	} {
		var s Signal
		if err := s.Set(text); err != nil || s.Number != want || strings.HasPrefix(s.Name, "SIG") {
			t.Errorf("%q is %+v, %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "SIG", "0", "65", "-1", "TERMINATE", "SIGSIGTERM", "1x"} {
		if err := new(Signal).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
