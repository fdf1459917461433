package launcher

import (
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/podapi/wayout"
)

func TestDoctorSaysByWhichWaysCommandsLeave(t *testing.T) {
	const open, advisory, landlock, network = wayout.Open, wayout.Advisory, wayout.Landlock, wayout.Network
	for _, test := range []struct {
		asked wayout.Mode
		is    wayout.Level
		want  Verdict
	}{
		{"", open, NotChecked},
		{"", advisory, NotChecked},
		{"", landlock, NotChecked},
		{"", network, Passed},
		{wayout.Auto, open, Warned},
		{wayout.Auto, advisory, Warned},
		{wayout.Auto, landlock, Warned},
		{wayout.Auto, network, Passed},
		{wayout.Mode(advisory), advisory, Passed},
		{wayout.Mode(landlock), landlock, Passed},
		{wayout.Mode(landlock), open, Warned},
	} {
		f := egressFinding(wayout.Info{Level: test.is, Missing: "reason"}, test.asked, egressAdvice)
		said := f.Detail
		if f.Err != nil {
			said = f.Err.Error()
		}
		if f.Verdict != test.want || (f.Err != nil) != (f.Advice != "") || !strings.Contains(said, "reason") {
			t.Errorf("asked for %q, it is %q: %+v", test.asked, test.is, f)
		}
	}
}

// A command that runs beside the agent may need the network, so it is not taken away for a trial.
func TestDoctorTriesToLeaveUnlessThatMayHarmMain(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		want wayout.Mode
	}{
		{Spec{}, wayout.Auto},
		{Spec{Pod: Pod{Main: []string{"main"}}}, ""},
		{Spec{Egress: wayout.Config{Mode: wayout.Mode(wayout.Landlock)}, Pod: Pod{Main: []string{"main"}}}, wayout.Mode(wayout.Landlock)},
	} {
		p := &clusterPatient{spec: test.spec}
		if got := p.trialSpec().Egress.Mode; got != test.want || p.spec.Egress.Mode != test.spec.Egress.Mode {
			t.Errorf("%+v: %q, and the Spec has %q", test.spec, got, p.spec.Egress.Mode)
		}
	}
}
