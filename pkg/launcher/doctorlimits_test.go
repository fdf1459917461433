package launcher_test

import (
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

func TestDoctorSaysWhatWouldLimitASandbox(t *testing.T) {
	const why = "there is no delegated group"
	for name, test := range map[string]struct {
		is      isolation.Info
		root    bool
		verdict launcher.Verdict
		says    []string // in the finding and its advice
	}{
		"a control group": {isolation.Info{Level: isolation.Landlock, Limiter: isolation.ControlGroup}, false, launcher.Passed, []string{"processes and memory"}},
		"resource limits": {
			isolation.Info{Level: isolation.Namespaces, Limiter: isolation.ResourceLimits, NoControlGroup: why},
			false, launcher.Warned,
			[]string{"nothing its memory, because " + why, "systemd-run --user --scope"},
		},
		"nothing": {
			isolation.Info{Level: isolation.Landlock, NoControlGroup: why},
			true, launcher.Warned,
			[]string{"nothing limits its processes and memory, because " + why, "/sys/fs/cgroup"},
		},
		"no isolation": {isolation.Info{}, false, launcher.NotChecked, []string{"nothing isolates"}},
	} {
		f := launcher.LimitsFinding(test.is, test.root)
		said := f.Detail + " " + f.Advice
		if f.Err != nil {
			said += f.Err.Error()
		}
		for _, want := range test.says {
			if f.Verdict != test.verdict || !strings.Contains(said, want) {
				t.Errorf("%s: %+v lacks %q, or is not %q", name, f, want, test.verdict)
			}
		}
	}
}
