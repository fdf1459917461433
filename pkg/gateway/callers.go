package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

type callerKey struct{}

// callerOf returns who sent the request that a context is of.
func callerOf(ctx context.Context) Caller { return ctx.Value(callerKey{}).(Caller) }

// tenantOf returns the tenant that a request is from.
func tenantOf(ctx context.Context) string { return callerOf(ctx).Tenant }

// policy returns what the caller may do.
func (g *Gateway) policy(ctx context.Context) (*Policy, error) {
	policy, err := g.Tenants.Policy(ctx, tenantOf(ctx))
	if err != nil {
		return nil, g.untold(err)
	}
	return &policy, nil
}

// identified passes a request for an operation on with its caller, or refuses it.
func (g *Gateway) identified(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Path != mcpPath {
		next.ServeHTTP(w, r) // what everybody may see
		return
	}
	w, r, end, err := g.letIn(w, r, bearer(r))
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	defer end()
	w.Header().Set(headerRequestID, actOf(r.Context()).act.ID)
	next.ServeHTTP(w, r)
}

// bearer returns the token in a request's Authorization, or from a page's WebSocket; "" if there is
// none.
func bearer(r *http.Request) string {
	if r.Header.Get("Authorization") == "" {
		return protocolToken(r.Header.Get("Sec-WebSocket-Protocol"))
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return token
}

// letIn lets a request in that comes with a token: it returns what to answer it with, the request
// with its caller, and what to call when it is answered. The request's context ends when the token
// is no longer the caller's, and soon afterwards nothing can be read or written any more.
func (g *Gateway) letIn(w http.ResponseWriter, r *http.Request, token string) (http.ResponseWriter, *http.Request, func(), error) {
	caller, err := g.callerBy(r, token)
	if err != nil {
		return w, r, nil, err
	}
	return g.letInCaller(w, r, token, caller)
}

// letInCaller is letIn for a caller who is known by the token, or without one. The request's act
// ends when it is answered.
func (g *Gateway) letInCaller(w http.ResponseWriter, r *http.Request, token string, caller Caller) (http.ResponseWriter, *http.Request, func(), error) {
	return g.letInBy(w, r, proof{token: token}, caller)
}

// letInBy is letInCaller for a caller who has a proof.
func (g *Gateway) letInBy(w http.ResponseWriter, r *http.Request, by proof, caller Caller) (http.ResponseWriter, *http.Request, func(), error) {
	policy, err := g.Tenants.Policy(r.Context(), caller.Tenant)
	if err != nil {
		return w, r, nil, g.untold(err)
	}
	of := caller.Tenant
	if !by.known() {
		of = publicLoad + of
	}
	leave, err := g.loads.enter(of, policy)
	if err != nil {
		return w, r, nil, err
	}
	a, ctx := g.newAct(context.WithValue(r.Context(), callerKey{}, caller), caller, by.known(), r)
	w, r = a.counted(ctx, w, r)
	endCall := func() {}
	if of := by.group(caller.Tenant); of != (group{}) {
		c := g.calls.begin(w, r, of)
		w, r, endCall = c, c.request, func() { g.calls.end(c) }
	}
	return w, r, func() {
		panicked := recover() // the answer is cut off
		endCall()
		leave()
		a.end(context.WithoutCancel(ctx), panicked != nil)
		if panicked != nil {
			panic(panicked)
		}
	}, nil
}

// publicLoad begins the name of a load of those who come to a tenant's servers without a token:
// they leave room for the tenant.
const publicLoad = "public "

// callerBy returns who sends a token.
func (g *Gateway) callerBy(r *http.Request, token string) (Caller, error) {
	if token == "" {
		return Caller{}, errNoToken
	}
	caller, err := g.ask(r, token)
	switch {
	case errors.Is(err, ErrUnknownToken):
		return Caller{}, g.failed(r, errStale)
	case err != nil:
		return Caller{}, g.untold(err)
	}
	return caller, nil
}

// ask asks whose a token is. If the request's address has sent many wrong ones, only what is known
// counts.
func (g *Gateway) ask(r *http.Request, token string) (Caller, error) {
	ctx := r.Context()
	if g.failures.of(r).Tokens() < 1 {
		ctx = fromMemory(ctx)
	}
	return g.Tenants.Caller(ctx, token)
}

// failed counts a wrong token, and returns why its request is refused: why, or that there were too many.
func (g *Gateway) failed(r *http.Request, why error) error {
	if wait := waitFor(g.failures.of(r)); wait > 0 {
		return tooMany("rate", "too many tokens from this address were not valid", wait)
	}
	return why
}

var errNoToken = &refusal{http.StatusUnauthorized, "unauthenticated", "there is no bearer token"}

// errUntold says that nobody knows whether a token is valid.
var errUntold = errors.New("the gateway cannot tell who calls")

// untold refuses a request whose caller cannot be told for now. The log says why, but not for each
// request.
func (g *Gateway) untold(err error) error {
	if errors.Is(err, ErrBusy) {
		return tooMany("rate", ErrBusy.Error(), time.Second)
	}
	g.sometimes.Do(func() { g.Log.Error("cannot tell who calls", "error", err) })
	return errNobodyKnows
}

// newSometimes returns what logs a failure that may come with each request.
func newSometimes() *rate.Sometimes { return &rate.Sometimes{Interval: untoldInterval} }

type memoryKey struct{}

// fromMemory has a caller told from what is known, and nobody asked.
func fromMemory(ctx context.Context) context.Context {
	return context.WithValue(ctx, memoryKey{}, true)
}

func onlyFromMemory(ctx context.Context) bool { return ctx.Value(memoryKey{}) != nil }
