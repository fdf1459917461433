// Package launchtrace tells how a launch gets on, as [net/http/httptrace] does for requests.
//
//	ctx = launchtrace.WithTrace(ctx, &launchtrace.Trace{
//		GotPod: func(p launchtrace.Pod) { log.Print(p.Start, p.Name, p.Why) },
//	})
//	s, err := l.Launch(ctx, spec)
//
// [Counts] counts launches.
package launchtrace

import "context"

// Start is how a launch got its pod.
type Start string

const (
	Warm    Start = "warm"    // it took one out of a pool
	Cold    Start = "cold"    // it made one
	Adopted Start = "adopted" // the sandbox had one
)

// Pod is the pod that a launch got.
type Pod struct {
	Name  string
	Start Start
	Why   string // why it is no pod of the pool that the Spec names; else empty
}

// Trace has functions that a launch by launcher.Kubernetes calls. Any may be nil. They are
// called one after the other, and the launch waits for them.
type Trace struct {
	// GotPod is called when the launch has its pod: again with the next one, if that turns out to
	// be going or of no use.
	GotPod func(Pod)
	// Answered is called when the agent has answered for the first time and has its
	// configuration.
	Answered func()
	// Ready is called when the launch has succeeded, at its very end.
	Ready func()
}

type key struct{}

// WithTrace returns a context whose launches call the functions of t, and before them those of
// a Trace that ctx has already.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	outer := FromContext(ctx)
	return context.WithValue(ctx, key{}, &Trace{
		GotPod:   func(p Pod) { outer.gotPod(p); t.gotPod(p) },
		Answered: func() { call(outer.Answered); call(t.Answered) },
		Ready:    func() { call(outer.Ready); call(t.Ready) },
	})
}

// FromContext returns the Trace of a context. Without one it has no functions.
func FromContext(ctx context.Context) *Trace {
	if t, ok := ctx.Value(key{}).(*Trace); ok {
		return t
	}
	return &Trace{}
}

func (t *Trace) gotPod(p Pod) {
	if t.GotPod != nil {
		t.GotPod(p)
	}
}

func call(f func()) {
	if f != nil {
		f()
	}
}
