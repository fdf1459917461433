package launcher

import (
	"errors"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
)

// A sandbox that confines its commands by less than is required is not given out.
func TestConfinementIsRequired(t *testing.T) {
	filter, all := []string{"no-new-privileges", "syscall-filter"}, []string{"no-new-privileges", "syscall-filter", "landlock-domain", "signal-scope"}
	for _, test := range []struct {
		level string
		has   []string
		fails bool
	}{
		{"", nil, false},
		{"off", nil, false},
		{"filter", nil, true},
		{"filter", filter[:1], true},
		{"filter", filter, false},
		{"domain", filter, true},
		{"domain", all, false},
	} {
		pod := Pod{Confine: test.level}
		if err := pod.checkConfined(podapi.Info{Confinement: test.has}); (err != nil) != test.fails {
			t.Errorf("%q with %v: %v", test.level, test.has, err)
		}
	}
	spec := Spec{Pod: Pod{Image: "image", Confine: "strictly"}}
	if wrong := (*SpecError)(nil); !errors.As(spec.validatePod(), &wrong) || wrong.Field != "Pod.Confine" {
		t.Errorf("an unknown level: %v", wrong)
	}
}
