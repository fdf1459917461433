package gateway

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// swept notes what is done with a sandbox.
type swept struct {
	did string
	all bool // a sweep removes something
}

func (s *swept) Sweep(context.Context, string) (bool, error) {
	s.did += "removed "
	return s.all, nil
}

func (s *swept) Heartbeat(context.Context, string) error {
	s.did += "kept "
	return nil
}

func TestWhatASweepDoesWithASandbox(t *testing.T) {
	now := time.Now()
	ours, sleeper := map[string]string{labelIdentity: "x"}, map[string]string{labelIdentity: "x", labelAutoPause: "true"}
	soon, past, longPast := now.Add(time.Hour), now.Add(-time.Second), now.Add(-25*time.Hour)
	fresh, aging, stale := now.Add(-time.Minute), now.Add(-10*time.Minute), now.Add(-time.Hour)
	for name, test := range map[string]struct {
		summary launcher.Summary
		want    string
	}{
		"runs, needed":                    {launcher.Summary{State: launcher.Running, Labels: ours, Heartbeat: fresh}, ""},
		"runs, without a gateway":         {launcher.Summary{State: launcher.Running, Labels: ours, Heartbeat: aging}, "kept "},
		"runs, forgotten by all gateways": {launcher.Summary{State: launcher.Running, Labels: ours, Heartbeat: stale, Expires: soon}, "kept "},
		"runs beyond its lifetime":        {launcher.Summary{State: launcher.Running, Labels: ours, Heartbeat: fresh, Expires: past}, "removed "},
		"starts":                          {launcher.Summary{State: launcher.Pending, Labels: ours, Heartbeat: aging}, ""},
		"never started":                   {launcher.Summary{State: launcher.Pending, Labels: ours, Heartbeat: stale}, "removed "},
		"ended, and callers may ask why":  {launcher.Summary{State: launcher.Ended, Labels: ours, Heartbeat: aging, Expires: soon}, ""},
		"ended long ago":                  {launcher.Summary{State: launcher.Ended, Labels: ours, Heartbeat: stale}, "removed "},
		"ended by its lifetime":           {launcher.Summary{State: launcher.Ended, Labels: ours, Heartbeat: fresh, Expires: past}, "removed "},
		"sleeps, with its pod":            {launcher.Summary{State: launcher.Ended, Labels: sleeper, Heartbeat: fresh, Expires: soon}, "removed "},
		"sleeps, without a pod":           {launcher.Summary{State: launcher.Paused, Labels: sleeper, Heartbeat: stale, Expires: soon}, ""},
		"paused by hand":                  {launcher.Summary{State: launcher.Paused, Labels: ours, Heartbeat: longPast}, ""},
		"paused, ended today":             {launcher.Summary{State: launcher.Paused, Labels: sleeper, Expires: past}, ""},
		"paused, ended yesterday":         {launcher.Summary{State: launcher.Paused, Labels: sleeper, Expires: longPast}, "removed "},
		"is being removed":                {launcher.Summary{State: launcher.Terminating, Labels: sleeper, Heartbeat: stale, Expires: longPast}, ""},
		"is no gateway's":                 {launcher.Summary{State: launcher.Ended, Heartbeat: stale, Expires: longPast}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.summary.ID = "acme.job-1"
			var got swept
			if do := dutyOf(test.summary, now); do != nil {
				if err := do(t.Context(), nil, &got, test.summary); err != nil {
					t.Error(err)
				}
			}
			if got.did != test.want {
				t.Errorf("it is %q, want %q", got.did, test.want)
			}
		})
	}
}

func TestSweepSaysWhy(t *testing.T) {
	var got []string
	g := New(Options{Swept: func(reason string) { got = append(got, reason) }})
	past, soon := time.Now().Add(-time.Second), time.Now().Add(time.Hour)
	for _, s := range []launcher.Summary{
		{State: launcher.Ended, Labels: map[string]string{labelAutoPause: "true"}, Expires: soon},
		{State: launcher.Ended, Labels: map[string]string{labelAutoPause: "true"}, Expires: past},
		{State: launcher.Pending},
	} {
		for _, all := range []bool{true, false} { // nothing is said of what stays
			if err := removeOver(t.Context(), g, &swept{all: all}, s); err != nil {
				t.Error(err)
			}
		}
	}
	if want := []string{"paused", "expired", "ended"}; !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
