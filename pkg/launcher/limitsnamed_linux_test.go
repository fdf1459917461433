package launcher

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
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

// What others have used up, such as processes, is there again later. A sandbox does not go without its control group for
// that, as it does where the system refuses it one.
func TestLackLeavesNoSandboxWithoutItsControlGroup(t *testing.T) {
	for _, test := range []struct {
		why  error
		lack bool
	}{
		{&os.PathError{Op: "fork/exec", Path: "podagent", Err: unix.EAGAIN}, true},
		{&os.PathError{Op: "open", Path: "cgroup.procs", Err: unix.EMFILE}, true},
		{&os.PathError{Op: "mkdir", Path: "podagent-a", Err: unix.ENOMEM}, true},
		{&os.PathError{Op: "mkdir", Path: "podagent-a", Err: unix.EAGAIN}, false}, // cgroup.max.descendants
		{&os.PathError{Op: "fork/exec", Path: "podagent", Err: unix.EBUSY}, false},
		{&os.PathError{Op: "access", Path: "cgroup.procs", Err: unix.EACCES}, false},
	} {
		if _, err := (namedLimits{}).withoutGroup(test.why); (err != nil) != test.lack || test.lack && !errors.Is(err, test.why) {
			t.Errorf("after %v: %v", test.why, err)
		}
	}
}
