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
		named map[corev1.ResourceName]float64
		want  bool
	}{
		{"none", nil, false},
		{"no bound", map[corev1.ResourceName]float64{corev1.ResourceMemory: 0}, false},
		{"memory", map[corev1.ResourceName]float64{corev1.ResourceMemory: 1 << 30}, true},
		{"processors", map[corev1.ResourceName]float64{corev1.ResourceCPU: 1}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, missing := range [][]limitgroup.Controller{nil, {limitgroup.Processes}} {
				r, b := boundsRecord{Named: test.named}, bounds{}
				if err := r.settle(&b, r.limits(), missing, errors.New("no reason")); err != nil {
					t.Fatal(err)
				}
				if got := slices.Contains(b.flags, "--limits-required"); got != test.want {
					t.Errorf("without %v its flags are %q", missing, b.flags)
				}
			}
		})
	}
}
