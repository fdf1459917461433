package gateway

import (
	"errors"
	"net/http"
	"time"
)

// Face serves callers in the words of another API than the gateway's own. It translates and decides
// nothing: all that it does for a caller, it does by the [Call] that it gets. Its methods may be called
// concurrently.
type Face interface {
	// Claim reports whether a request is the face's, and how its caller can be told. The address is the
	// one that the request's host names, or else zero. A request that is the face's and has a zero Credential
	// is refused, with a Failure of 401 that Refuse can replace: so a face answers what it cannot place. Claim
	// must neither change the request nor read its body.
	Claim(r *http.Request, at Address) (Credential, bool)
	// Serve answers a request whose caller was let in. The context of the request ends when the caller
	// leaves, its token is no longer valid, or the gateway ends.
	Serve(w http.ResponseWriter, r *http.Request, c *Call)
	// Refuse answers a request whose caller was not let in.
	Refuse(w http.ResponseWriter, r *http.Request, why Failure)
}

// HeaderFace is a face that also takes requests to the gateway's own host which name a sandbox by the header
// X-Sandbox-Id. Without it they go to servers in sandboxes.
type HeaderFace interface {
	Face
	// ClaimNamed is like Claim, for such a request.
	ClaimNamed(r *http.Request) (Credential, bool)
}

// Address is that of a server in a sandbox, as a host below [Options].Domain names it.
type Address struct {
	Tenant  string // empty if the host does not say: then it is the caller's
	Sandbox string // its name
	Port    int    // 0 if the host is none of a server
}

// Credential is what a request shows of its caller: the token of a tenant, or what a token for one
// sandbox (see [Call.SandboxToken]) has made.
type Credential struct {
	// Token is a tenant's. The other fields count only without it.
	Token string
	// Sandbox is the name of the sandbox that Scoped opens, and Tenant whose it is; empty if Scoped
	// tells.
	Tenant, Sandbox string
	// Scoped is a token for the sandbox, and Scope what it must have been made for.
	Scoped, Scope string
	// Made, unless nil, reports whether what the request shows was made with a token for the sandbox.
	// It is asked of all tokens that are valid. Tenant must be set.
	Made func(token string) bool
}

// Failure is why something was not done.
type Failure struct {
	Status     int           // of HTTP, as REST has it
	Class      string        // as in a [Problem]
	Text       string        // for the caller
	RetryAfter time.Duration // when it may succeed; 0 if that is not known
}

// faceOf returns the face that a request is of; nil if it is of none.
func (g *Gateway) faceOf(r *http.Request, t *target) (Face, Credential) {
	if t != nil && t.byHeader {
		return nil, Credential{}
	}
	at := t.address()
	for _, f := range g.Faces {
		if shown, ok := f.Claim(r, at); ok {
			return f, shown
		}
	}
	return nil, Credential{}
}

// headerFaceOf returns the face that takes a request by its header X-Sandbox-Id; nil if none does.
func (g *Gateway) headerFaceOf(r *http.Request) (Face, Credential) {
	if _, below := g.domain.label(r.Host); below || r.Header[headerID] == nil || r.Method == http.MethodConnect {
		return nil, Credential{}
	}
	for _, f := range g.Faces {
		if named, ok := f.(HeaderFace); ok {
			if shown, ok := named.ClaimNamed(r); ok {
				return f, shown
			}
		}
	}
	return nil, Credential{}
}

// address returns that of a target that a host names.
func (t *target) address() Address {
	if t == nil {
		return Address{}
	}
	return Address{t.tenant, t.name, t.port}
}

// serveFace passes a request on to its face, once its caller is let in.
func (g *Gateway) serveFace(w http.ResponseWriter, r *http.Request, f Face, t *target, shown Credential) {
	guard(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	c, err := g.callBy(r, shown)
	if err != nil {
		g.refuseFace(w, r, f, err)
		return
	}
	c.at = t.address()
	w, r, end, err := g.letInBy(w, r, c.by, c.caller)
	if err != nil {
		g.refuseFace(w, r, f, err)
		return
	}
	defer end()
	w.Header().Set(headerRequestID, actOf(r.Context()).act.ID)
	patient(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.Serve(w, r, c) }))
}

func (g *Gateway) refuseFace(w http.ResponseWriter, r *http.Request, f Face, err error) {
	abandon(r)
	err = g.problem(r.Context(), err)
	g.turnedAway(r.Context(), problemOf(err))
	stopReading(w, r)
	f.Refuse(w, r, failureOf(err))
}

// failureOf describes what [Gateway.problem] has returned.
func failureOf(err error) Failure {
	p := problemOf(err)
	f := Failure{Status: p.Status, Class: p.Class, Text: p.Detail}
	if with, ok := errors.AsType[interface {
		error
		GetHeaders() http.Header
	}](err); ok {
		f.RetryAfter, _ = time.ParseDuration(with.GetHeaders().Get("Retry-After") + "s")
	}
	return f
}
