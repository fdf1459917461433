package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// Call is a request to a [Face] whose caller was let in. What it names is the caller's tenant's. Its
// methods take the request's context. Their errors can be told by [Call.Failure].
type Call struct {
	g       *Gateway
	caller  Caller
	by      proof
	at      Address
	foreign foreign
}

// Address returns that of the server in a sandbox that the request's host names, or else zero.
func (c *Call) Address() Address { return c.at }

// Tenant returns whose the call is.
func (c *Call) Tenant() string { return c.caller.Tenant }

// Sandbox returns the only sandbox that the caller's token opens; "" if it opens all of the tenant's.
func (c *Call) Sandbox() string { return c.by.sandbox }

// Domain returns that of servers in sandboxes, with a port unless it is the scheme's; "" if there is none.
func (c *Call) Domain() string {
	d := c.g.domain
	if d.host == "" || d.port == "" {
		return d.host
	}
	return d.host + ":" + d.port
}

// IsLocal reports whether sandboxes are processes on the gateway's own machine: they can neither be paused
// nor end themselves.
func (c *Call) IsLocal() bool { return c.g.isLocal() }

// Begin says what the call does, and to which sandbox, before it has an effect: observers are told. The
// first call counts. An error keeps the call from taking place.
func (c *Call) Begin(ctx context.Context, operation, sandbox string, d Detail) error {
	if sandbox != "" {
		if err := c.check(sandbox); err != nil {
			actOf(ctx).is(operation, "")
			return err
		}
	}
	actOf(ctx).is(operation, sandbox)
	return begin(ctx, d)
}

// check refuses what is no name of a sandbox, and, as not found, one that the caller's token does not open.
func (c *Call) check(sandbox string) error {
	if err := c.foreign.check(sandbox); err != nil {
		return invalid("%v", err)
	}
	if c.by.sandbox != "" && c.by.sandbox != sandbox {
		return launcher.ErrNotFound
	}
	return nil
}

// Failure describes an error, and notes that the call ends with it.
func (c *Call) Failure(ctx context.Context, err error) Failure {
	return failureOf(c.g.problem(ctx, err))
}

// Fail returns an error of the face's own, such as of a request that makes no sense.
func Fail(status int, class, text string) error { return &refusal{status, class, text} }

// Create makes a sandbox, as the operation create-sandbox does. It reports whether there was none of
// its ID.
func (c *Call) Create(ctx context.Context, order NewSandbox) (s Sandbox, made bool, err error) {
	if err := c.unscoped(); err != nil {
		return Sandbox{}, false, err
	}
	out, err := c.g.create(ctx, &createInput{Body: order})
	if err != nil {
		return Sandbox{}, false, err
	}
	return out.Body, out.Status == http.StatusCreated, nil
}

// Egress returns what sandboxes of the tenant reach by the gateways; nil if these let none out.
func (c *Call) Egress(ctx context.Context) (*Egress, error) {
	policy, err := c.g.policy(ctx)
	if err != nil {
		return nil, err
	}
	return policy.Egress, nil
}

// unscoped refuses what a token for one sandbox does not admit.
func (c *Call) unscoped() error {
	if c.by.sandbox != "" {
		return &refusal{http.StatusForbidden, "permission", "this takes a token of the tenant, not one for a sandbox"}
	}
	return nil
}

// NewName makes up the name of a sandbox.
func (c *Call) NewName() string { return newName(c.caller.Tenant, "") }

// Listed is a sandbox as lists have it, and [Call.Find].
type Listed struct {
	Sandbox
	// Resources are cpu and memory, its limits or else requests, and its workspace's storage, which Find knows
	// only of some.
	Resources corev1.ResourceList
}

// List describes all sandboxes of the tenant, in the order of their names.
func (c *Call) List(ctx context.Context) ([]Listed, error) {
	if err := c.unscoped(); err != nil {
		return nil, err
	}
	all, err := c.g.Launcher.List(ctx)
	if err != nil {
		return nil, &ofAll{err}
	}
	var own []Listed
	for _, s := range ofTenant(c.caller.Tenant, all) {
		name, _ := nameOf(c.caller.Tenant, s.ID)
		own = append(own, Listed{sandboxOf(name, s), s.Resources})
	}
	return own, nil
}

// Find describes a sandbox.
func (c *Call) Find(ctx context.Context, name string) (Listed, error) {
	if err := c.check(name); err != nil {
		return Listed{}, err
	}
	s, err := c.g.find(ctx, name)
	return Listed{sandboxOf(name, s), s.Resources}, err
}

// Remove ends a sandbox, and removes it with its files.
func (c *Call) Remove(ctx context.Context, name string) error {
	if err := c.check(name); err != nil {
		return err
	}
	_, err := c.g.remove(ctx, &sandboxPath{name})
	return err
}

// Pause ends a sandbox's pod, and keeps its files.
func (c *Call) Pause(ctx context.Context, name string) error {
	if err := c.check(name); err != nil {
		return err
	}
	_, err := c.g.pause(ctx, &sandboxPath{name})
	return err
}

// Resume gives a paused sandbox a pod, and returns once its agent answers.
func (c *Call) Resume(ctx context.Context, name string) error {
	if err := c.check(name); err != nil {
		return err
	}
	_, err := c.g.resume(ctx, &sandboxPath{name})
	return err
}

// Expire sets when a sandbox ends itself, sooner or later than it would. It returns that time.
func (c *Call) Expire(ctx context.Context, name string, at time.Time) (time.Time, error) {
	if err := c.check(name); err != nil {
		return time.Time{}, err
	}
	in := &expireInput{ID: name}
	in.Body.At = at
	out, err := c.g.expire(ctx, in)
	if err != nil {
		return time.Time{}, err
	}
	return out.Body.ExpiresAt, nil
}

// Extend lets a sandbox that ends by a time live for a while from now on, in whole seconds, and no shorter
// than it would. It returns when it ends.
func (c *Call) Extend(ctx context.Context, name string, life time.Duration) (time.Time, error) {
	if err := c.check(name); err != nil {
		return time.Time{}, err
	}
	in := &extendInput{ID: name}
	in.Body.Seconds = int64(life / time.Second)
	out, err := c.g.extend(ctx, in)
	if err != nil {
		return time.Time{}, err
	}
	return out.Body.ExpiresAt, nil
}

// Use calls do with an open sandbox, which others may use, too: do must not close it. With wake a sandbox
// that sleeps is resumed, and it does not count as idle; without it the error is [launcher.ErrPaused]. After
// an error of do that says that the sandbox is gone, the next call opens it anew.
func (c *Call) Use(ctx context.Context, name string, wake bool, do func(*launcher.Sandbox) error) error {
	if err := c.check(name); err != nil {
		return err
	}
	return c.g.held.use(ctx, c.foreign.id(c.caller.Tenant, name), wake, do)
}

// Started notes that the command runs that the call began.
func (c *Call) Started(ctx context.Context, p *podapi.Process) { actOf(ctx).runs(p) }

// Exited notes how the command ended that the call waited for.
func (c *Call) Exited(ctx context.Context, s *podapi.ExitStatus) { actOf(ctx).exited(s) }

// Closing ends when the gateway is about to: streams should be told to go on with another gateway, and
// leave their commands running.
func (c *Call) Closing() context.Context { return c.g.streams.closing }

// Lasting returns a context for what goes on after the call, such as a watch whose events are asked for
// later. It ends when the caller's token is no longer valid, when the gateway is about to end, and by stop,
// which must be called.
func (c *Call) Lasting(ctx context.Context) (lasting context.Context, stop func()) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	keep := context.AfterFunc(c.Closing(), func() { cancel(errClosing) })
	forget := func() {}
	if of := c.by.group(c.caller.Tenant); of != (group{}) {
		after := &afterCall{cancel}
		c.g.calls.add(of, after)
		forget = func() { c.g.calls.remove(of, after) }
	}
	return lasting, sync.OnceFunc(func() {
		keep()
		forget()
		cancel(nil)
	})
}

// afterCall is what goes on after a call.
type afterCall struct{ end context.CancelCauseFunc }

func (a *afterCall) revoke(cause error) { a.end(cause) }

// SandboxToken returns a token that opens one sandbox of the tenant, by [Credential].Scoped, for as long as
// the token is valid that the caller came with. It opens a later sandbox of the same name, too. All gateways
// with the same [LinkKeys] take it, and make the same one. What it is for is up to the face: as a credential
// it must name the same.
func (c *Call) SandboxToken(name, scope string) (string, error) {
	if err := c.check(name); err != nil {
		return "", err
	}
	keys, err := c.g.LinkKeys.read()
	if err != nil {
		c.g.Log.Error("cannot sign a token", "error", err)
		return "", &refusal{http.StatusServiceUnavailable, "unavailable", "the gateway cannot sign tokens"}
	}
	if c.by.digest == nil {
		return "", errNoSandboxToken
	}
	return strings.Join([]string{c.caller.Tenant, signatureFor(keys[0], scope, c.caller.Tenant, name, *c.by.digest)}, separator), nil
}
