package launchtrace_test

import (
	"context"
	"slices"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchtrace"
)

// launch does what a launch does with its context.
func launch(ctx context.Context, pods ...launchtrace.Pod) {
	t := launchtrace.FromContext(ctx)
	for _, p := range pods {
		if t.GotPod != nil {
			t.GotPod(p)
		}
	}
	for _, f := range []func(){t.Answered, t.Ready} {
		if f != nil {
			f()
		}
	}
}

func TestTracesAreCalledFromTheOutsideIn(t *testing.T) {
	var calls []string
	note := func(name string) *launchtrace.Trace {
		return &launchtrace.Trace{
			GotPod: func(p launchtrace.Pod) { calls = append(calls, name+" "+p.Name) },
			Ready:  func() { calls = append(calls, name+" ready") },
		}
	}
	ctx := launchtrace.WithTrace(t.Context(), note("outer"))
	launch(launchtrace.WithTrace(ctx, &launchtrace.Trace{}))
	launch(launchtrace.WithTrace(ctx, note("inner")), launchtrace.Pod{Name: "a"})
	launch(t.Context(), launchtrace.Pod{Name: "nobody sees it"})
	if want := []string{"outer ready", "outer a", "inner a", "outer ready", "inner ready"}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

// A launch counts once, by the pod that it ended with.
func TestCountsAreThoseOfLaunchesThatSucceeded(t *testing.T) {
	var c launchtrace.Counts
	gone, warm := launchtrace.Pod{Start: launchtrace.Warm}, launchtrace.Pod{Start: launchtrace.Warm}
	cold := launchtrace.Pod{Start: launchtrace.Cold, Why: "the pool has no pods"}
	launch(c.Counting(t.Context()), gone, cold)
	launch(c.Counting(t.Context()), warm)
	launch(c.Counting(t.Context()), launchtrace.Pod{Start: launchtrace.Cold})
	c.Counting(t.Context()) // of a launch that fails
	starts := c.Starts()
	if starts[launchtrace.Warm].Launches != 1 || starts[launchtrace.Cold].Launches != 2 || len(starts) != 2 || c.Misses() != 1 {
		t.Errorf("%+v, %d misses", starts, c.Misses())
	}
	if starts[launchtrace.Cold].Time <= 0 {
		t.Errorf("they took %v", starts[launchtrace.Cold].Time)
	}
}
