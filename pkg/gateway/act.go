package gateway

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// Act is what a caller does: an operation, a request to a server in a sandbox, a call of podapi, or
// a call of a tool.
type Act struct {
	ID        string // a UUIDv7 of its own; the gateway's own answers have it as X-Request-Id
	Caller           // its Key is empty for a link, and for a port that is public
	ByToken   bool   // else it came by a link, or to a port that is public
	Operation string // its id in the OpenAPI document, RouteOperation, podapi.v1.SERVICE/METHOD, mcp/TOOL, or a Face's
	Pattern   string // of the paths that lead to it, such as /api/v1/sandboxes/{id}; empty for RouteOperation, podapi and a Face
	Sandbox   string // the tenant's name of it; empty if there is none
	Detail
	At time.Time // when the caller was let in
}

// headerRequestID has an act's id in answers of the gateway.
const headerRequestID = "X-Request-Id"

// RouteOperation is the operation of a request to a server in a sandbox.
const RouteOperation = "route"

// Detail says what an act is done to. It is redacted, and shortened if it is long.
type Detail struct {
	Args   []string // a command with its arguments; or a script, alone
	Paths  []string // of files; of a request to a server, without its query
	Port   int      // of the server
	Method string   // of the request to it
	ExecID string   // of the command that it is about, if that is known before
}

// Outcome is how an act ended.
type Outcome struct {
	Status  int       // of HTTP; 0 if there was no answer
	Code    string    // of gRPC, such as NOT_FOUND, if it was a call of podapi; then Status is the like of it
	Class   string    // of the Problem, also of one that came when the answer had begun; empty for none
	Exit    *int      // the exit code of the command that it waited for
	Started time.Time // when the command had started that it began; zero for none
	PID     int       // of this command, in the sandbox
	In, Out int64     // bytes of the request's body, or frames, and of the answer
	Took    time.Duration
}

// Observer is told of all acts. Its methods may be called concurrently, and the callers wait for
// them.
type Observer interface {
	// Begin is called once for each act, before it has an effect. Its error keeps the act from
	// taking place, and is logged.
	Begin(ctx context.Context, a Act) error
	// End is called once for each act that began, when it has been answered.
	End(ctx context.Context, a Act, o Outcome)
}

// Follower is an observer that also follows acts while they are under way, and learns of requests
// that never became acts.
type Follower interface {
	Observer
	// Arrive is called for each act when its caller has been let in. It returns the context of all
	// that the act does. Of the Act only ID, Caller, ByToken and At are set. A server in a sandbox gets the
	// headers that Arrive sets on the request.
	Arrive(ctx context.Context, a Act, r *http.Request) context.Context
	// Launch is called when an act makes or resumes a sandbox. It returns the context of that, and
	// what is called when there is a sandbox, or else with the class of the error. Others may wait
	// for the same sandbox, so it may end after its act.
	Launch(ctx context.Context, resume bool) (context.Context, func(s *launcher.Sandbox, class string))
	// Refuse is called for each request that was not let in, with its answer.
	Refuse(ctx context.Context, status int, class string)
}

// act is an Act under way.
type act struct {
	observers []Observer
	in, out   atomic.Int64
	status    atomic.Int32

	mu      sync.Mutex
	act     Act
	begun   bool
	refused error // why it must not take place; also when it has ended
	code    string
	class   string
	exit    *int

	started time.Time
	pid     int
}

type actKey struct{}

// actOf returns the act that a context is of: one that nobody observes if it is of none.
func actOf(ctx context.Context) *act {
	if a, ok := ctx.Value(actKey{}).(*act); ok {
		return a
	}
	return &act{}
}

// newAct returns an act of a caller, and its context.
func (g *Gateway) newAct(ctx context.Context, caller Caller, byToken bool, r *http.Request) (*act, context.Context) {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // the kernel has no random bytes
	}
	a := &act{observers: g.Observers, act: Act{ID: id.String(), Caller: caller, ByToken: byToken, At: time.Now()}}
	ctx = context.WithValue(ctx, actKey{}, a)
	for f := range followers(a.observers) {
		ctx = f.Arrive(ctx, a.act, r)
	}
	return a, ctx
}

// followers returns those of the observers that are followers.
func followers(all []Observer) iter.Seq[Follower] {
	return func(yield func(Follower) bool) {
		for _, o := range all {
			if f, ok := o.(Follower); ok && !yield(f) {
				return
			}
		}
	}
}

// toldFollowers is a launch that the followers are told of.
func toldFollowers(resume bool, launch func(context.Context) (*launcher.Sandbox, error)) func(context.Context) (*launcher.Sandbox, error) {
	return func(ctx context.Context) (*launcher.Sandbox, error) {
		var tell []func(*launcher.Sandbox, string)
		for f := range followers(actOf(ctx).observers) {
			within, ended := f.Launch(ctx, resume)
			ctx, tell = within, append(tell, ended)
		}
		s, err := launch(ctx)
		class := ""
		if err != nil {
			class, _ = classify(err)
		}
		for _, ended := range tell {
			ended(s, class)
		}
		return s, err
	}
}

// is says what is done, as soon as it is known. What is empty changes nothing.
func (a *act) is(operation, sandbox string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if operation != "" {
		a.act.Operation = shown(operation)
	}
	if sandbox != "" {
		a.act.Sandbox = sandbox
	}
}

// by says which pattern its path has, as in the mux.
func (a *act) by(pattern string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.act.Pattern = pattern[strings.IndexByte(pattern, ' ')+1:] // without a method
}

// begin tells the observers that an act is about to take place, if they do not know yet.
func begin(ctx context.Context, d Detail) error { return actOf(ctx).begin(ctx, d) }

func (a *act) begin(ctx context.Context, d Detail) error {
	if len(a.observers) == 0 {
		return nil
	}
	d = d.redacted()
	a.mu.Lock()
	if a.begun {
		defer a.mu.Unlock()
		return a.refused
	}
	a.begun, a.act.Detail = true, d
	act := a.act
	a.mu.Unlock()
	for _, o := range a.observers {
		if err := o.Begin(ctx, act); err != nil {
			return a.refuse(err)
		}
	}
	return nil
}

// refuse keeps the act from taking place, however often it is tried.
func (a *act) refuse(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = &unobserved{err}
	return a.refused
}

// failed notes the class of the problem that an act ends with.
func (a *act) failed(class string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.class = class
}

// answered notes the code of gRPC that the act is answered with.
func (a *act) answered(code codes.Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.code = codeName(code)
}

// runs notes that the command runs that an act began.
func (a *act) runs(p *podapi.Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started, a.pid = time.Now(), p.PID()
}

// exited notes how the command ended that an act waited for.
func (a *act) exited(s *podapi.ExitStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exit = &s.Code
}

// end tells the observers how an act ended. One that was refused before it could begin begins and
// ends here.
func (a *act) end(ctx context.Context, cut bool) {
	_ = a.begin(ctx, Detail{}) // it has no effect any more
	_ = a.refuse(errActOver)
	a.mu.Lock()
	act := a.act
	o := Outcome{Status: int(a.status.Load()), Code: a.code, Class: a.class, Exit: a.exit, In: a.in.Load(), Out: a.out.Load(), Started: a.started, PID: a.pid, Took: time.Since(act.At)}
	a.mu.Unlock()
	if cut && o.Class == "" {
		o.Class = "cut"
	}
	for _, observer := range a.observers {
		observer.End(ctx, act, o)
	}
}

// unobserved says that an act did not take place because an observer has to know of it.
type unobserved struct{ error }

func (e *unobserved) Unwrap() error { return e.error }

var errActOver = errors.New("the act has ended")

var errUnobserved = &refusal{http.StatusServiceUnavailable, "unavailable", "the gateway cannot record the call, and so does not make it"}
