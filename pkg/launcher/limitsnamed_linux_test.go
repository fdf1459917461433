package launcher

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/limitgroup"
)

// An agent that comes to no level must end if limits were named, also where a control group keeps them.
func TestAgentLearnsThatLimitsWereNamed(t *testing.T) {
	for _, test := range []struct {
		name  string
		named namedLimits
		want  bool
	}{
		{"none", nil, false},
		{"no limit", namedLimits{corev1.ResourceMemory: 0}, false},
		{"memory", namedLimits{corev1.ResourceMemory: 1 << 30}, true},
		{"processors", namedLimits{corev1.ResourceCPU: 1}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, missing := range [][]limitgroup.Controller{nil, {limitgroup.Processes}} {
				var r limiter
				if err := r.tell(test.named, missing, errors.New("no reason")); err != nil {
					t.Fatal(err)
				}
				if got := slices.Contains(r.flags, "--limits-required"); got != test.want {
					t.Errorf("without %v its flags are %q", missing, r.flags)
				}
			}
		})
	}
}
