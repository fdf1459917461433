package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Visit is a client's connection of another protocol than HTTP, whose face makes calls of podapi for it. Each
// passes what one of HTTP does: the tenant's rate and streams, its names, the observers, waking.
// Its methods may be called concurrently.
type Visit struct {
	g      *Gateway
	caller SSHCaller
	from   string          // the client's address
	valid  context.Context // ends with the cause when the visit must end
	cancel context.CancelCauseFunc
	end    func()
}

// VisitBySSH lets in a client that has proved that the key is its own. The visit must be ended. The error
// says that the key counts no longer, that the tenant has too many connections, or that the gateway ends;
// [Gateway.FailureOf] has text of it for the client.
func (g *Gateway) VisitBySSH(ctx context.Context, shown SSHKey) (*Visit, error) {
	caller, err := g.SSHCaller(shown)
	if err == nil {
		_, err = g.Tenants.Policy(ctx, caller.Tenant)
	}
	switch {
	case errors.Is(err, ErrUnknownToken):
		return nil, errStale
	case err != nil:
		return nil, g.untold(err)
	case g.streams.closing.Err() != nil:
		return nil, errEnding
	}
	leave, err := g.visits.enter(caller.Tenant)
	if err != nil {
		return nil, err
	}
	v := &Visit{g: g, caller: caller, from: shown.From.String()}
	counted, done := g.streams.count(ctx)
	v.valid, v.cancel = context.WithCancelCause(counted)
	of := group{ssh: &shown, rights: caller}
	g.calls.add(of, v)
	v.end = sync.OnceFunc(func() {
		g.calls.remove(of, v)
		v.cancel(nil)
		done()
		leave()
	})
	return v, nil
}

// TurnAway notes that a client was not let in: with a status as HTTP has it, and the class of a [Problem].
func (g *Gateway) TurnAway(ctx context.Context, status int, class string) {
	g.turnedAway(ctx, newProblem(status, class, ""))
}

// FailureOf describes an error of a Visit.
func (g *Gateway) FailureOf(ctx context.Context, err error) Failure {
	return failureOf(g.problem(ctx, err))
}

// revoke implements revocable.
func (v *Visit) revoke(cause error) { v.cancel(cause) }

// End ends the visit. It is called when the client has left, and nothing is done for it any more.
func (v *Visit) End() { v.end() }

// Caller returns who the client is.
func (v *Visit) Caller() SSHCaller { return v.caller }

// Valid returns a context that ends when the connection must: its key counts no longer, or opens other things
// than it did, or the gateway ends. From then on the calls that can begin send signals, or go on with a command whose connection was
// cut. Commands that run are left to who has started them: they get no signal by themselves.
func (v *Visit) Valid() context.Context { return v.valid }

// Closing ends when the gateway is about to: connections should end that nobody uses, and clients connect
// anew.
func (v *Visit) Closing() context.Context { return v.g.streams.closing }

// Channel counts something that the client has open, until leave is called. It returns false if the tenant
// has too many.
func (v *Visit) Channel() (leave func(), ok bool) { return v.g.visits.open(v.caller.Tenant) }

// Sandbox returns a client of the tenant's sandbox of this name, which need not exist: calls say so
// then. They resume it if it sleeps. Their operations are ssh.SERVICE/METHOD. It need not be closed.
func (v *Visit) Sandbox(name string) *podapi.Client {
	return podapi.Over(&visitConn{v, name}, func() error { return nil })
}

// Workdir wakes the sandbox, and returns where its relative paths start.
func (v *Visit) Workdir(ctx context.Context, name string) (string, error) {
	c := &visitConn{v, name}
	call, err := c.begin(ctx, visitWorkdir, asked{}, false)
	if err != nil {
		return "", wire.FromStatus(err)
	}
	defer call.leave()
	dir := ""
	held, err := call.hold()
	if err == nil {
		dir = held.sandbox.Workdir
	}
	return dir, wire.FromStatus(call.finish(err))
}

// visitWorkdir is the operation that begins sftp.
const visitWorkdir = "ssh.sftp"

// request returns a request as observers know them.
func (v *Visit) request(ctx context.Context, path string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "ssh://gateway"+path, http.NoBody)
	if err != nil {
		panic(err) // the paths are those of methods
	}
	r.Proto, r.RemoteAddr = "SSH/2.0", v.from
	return r
}

// visits counts the connections of tenants, and what they have open.
type visits struct {
	mu       sync.Mutex
	byTenant map[string]*visitsOf

	rooms visitRooms
}

type visitsOf struct{ connections, channels int }

var errVisits = tooMany("streams", fmt.Sprintf("the tenant has %d connections at this gateway, and may not have more", visitsOfTenant), time.Second)

// enter counts a connection until leave is called.
func (v *visits) enter(tenant string) (leave func(), err error) {
	leave, ok := v.count(tenant, func(of *visitsOf) *int { return &of.connections }, visitsOfTenant)
	if !ok {
		return nil, errVisits
	}
	return leave, nil
}

// open counts a channel until leave is called.
func (v *visits) open(tenant string) (leave func(), ok bool) {
	return v.count(tenant, func(of *visitsOf) *int { return &of.channels }, visitChannels)
}

func (v *visits) count(tenant string, which func(*visitsOf) *int, limit int) (leave func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := v.byTenant[tenant]
	if of == nil {
		of = &visitsOf{}
	}
	n := which(of)
	if *n >= limit {
		return nil, false
	}
	*n++
	if v.byTenant == nil {
		v.byTenant = map[string]*visitsOf{}
	}
	v.byTenant[tenant] = of
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if *n--; *of == (visitsOf{}) {
			delete(v.byTenant, tenant)
		}
	}, true
}
