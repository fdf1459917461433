package launcher

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// The bounds of checks, each with its reason.
const (
	// doctorCall bounds a call to the API server: after that time the server counts
	// as unavailable.
	doctorCall = 10 * time.Second
	// doctorCommand bounds a command that takes milliseconds.
	doctorCommand = 30 * time.Second
)

// Verdict is the result of a check.
type Verdict string

const (
	Passed     Verdict = "ok"          // all is well
	Warned     Verdict = "warning"     // something is missing that sandboxes can do without
	Failed     Verdict = "failed"      // some or all sandboxes do not work
	NotChecked Verdict = "not checked" // Detail says why, such as that an earlier check failed
)

// Finding says what a check found.
type Finding struct {
	Name    string // what was checked, in a few words
	Verdict Verdict
	Detail  string // what was found, or why it was not checked
	Err     error  // why the verdict is Failed or Warned; otherwise nil
	Advice  string // what to do about it, in a sentence or two
}

func passed(format string, args ...any) Finding {
	return Finding{Verdict: Passed, Detail: fmt.Sprintf(format, args...)}
}

func failed(err error, advice string) Finding {
	return Finding{Verdict: Failed, Err: err, Advice: advice}
}

func warned(err error, advice string) Finding {
	return Finding{Verdict: Warned, Err: err, Advice: advice}
}

// A check is one step of Check.
type check[T any] struct {
	name string
	// needs are the names of the checks that must pass before this one.
	needs []string
	run   func(T, context.Context) Finding
}

// examine makes the checks of a patient in order, except those that need a failed
// one, until ctx ends. Then, or when the caller stops early, it closes the patient.
func examine[T interface{ close(context.Context) error }](ctx context.Context, patient T, checks []check[T]) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		defer patient.close(ctx) // the removal check reports its result
		var bad []string
		for _, c := range checks {
			f := Finding{Verdict: NotChecked}
			if i := slices.IndexFunc(c.needs, func(name string) bool { return slices.Contains(bad, name) }); i >= 0 {
				f.Detail = "it needs " + c.needs[i]
				bad = append(bad, c.name)
			} else if f = c.run(patient, ctx); f.Verdict == Failed {
				bad = append(bad, c.name)
			}
			f.Name = c.name
			if ctx.Err() != nil || !yield(f) {
				return
			}
		}
	}
}

// runCommand runs a command that only has to succeed.
func runCommand(ctx context.Context, s *Sandbox, name string, args ...string) Finding {
	c := s.Command(ctx, name, args...)
	c.Timeout = doctorCommand
	if err := c.Run(); err != nil {
		return failed(fmt.Errorf("%s: %w", c, err), `Look at what the agent says: "kubectl logs" for that of a pod.`)
	}
	return passed("%s ended with %v", c, c.Process.Status())
}
