package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/internal/delay"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// visitConn makes the calls of a visit in one sandbox.
type visitConn struct {
	*Visit
	name string
}

// visitCall is one of its calls. It is an act, but for those that a deed has in common.
type visitCall struct {
	conn   *visitConn
	ctx    context.Context
	cancel context.CancelCauseFunc
	act    *act
	held   *heldSandbox

	once sync.Once
	end  func() // of the act, and of what it counts for
	stop func() bool
}

// windsUp reports whether a call with this first message may begin when its visit has ended: a signal to
// what the visit has started, or the way back to a command whose connection was cut.
func windsUp(first any) bool {
	switch m := first.(type) {
	case *pb.SignalRequest:
		return true
	case *pb.ExecRequest:
		return m.GetAttach() != nil
	}
	return false
}

// call begins a call with this first message.
func (c *visitConn) call(ctx context.Context, method string, first any) (*visitCall, error) {
	known, ok := podapiMethods[method]
	message, isProto := first.(proto.Message)
	if !ok || !isProto {
		return nil, status.Error(codes.Unimplemented, "unknown method "+method)
	}
	if known.refused != "" {
		return nil, status.Error(codes.PermissionDenied, known.refused)
	}
	text, err := proto.Marshal(message)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	what, err := known.read(text)
	if err != nil {
		return nil, c.g.grpcStatus(ctx, err).Err()
	}
	if windsUp(first) {
		return c.begin(ctx, operationBySSH(method), what, true)
	}
	return c.deed(ctx, operationBySSH(method), what, method)
}

// operationBySSH returns the operation of a method: ssh.files/Read.
func operationBySSH(method string) string {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return "ssh." + strings.ToLower(service[strings.LastIndexByte(service, '.')+1:]) + "/" + name
}

// begin begins a call. One that does not wind up needs a visit that has not ended, also when it has waited.
func (c *visitConn) begin(ctx context.Context, operation string, what asked, windsUp bool) (*visitCall, error) {
	call := &visitCall{conn: c}
	call.bind(ctx, windsUp)
	leave, err := c.enter(call.ctx, windsUp)
	if err != nil {
		defer call.unbind()
		return nil, c.g.grpcStatus(call.ctx, err).Err()
	}
	call.act, call.ctx = c.g.newAct(context.WithValue(call.ctx, callerKey{}, c.caller.Caller), c.caller.Caller, true, c.request(call.ctx, "/"+operation))
	within := call.ctx
	call.end = func() {
		leave()
		call.act.end(context.WithoutCancel(within), false)
	}
	call.act.is(operation, "")
	if err = CheckName(c.name); err != nil {
		err = invalid("%v", err)
	} else {
		call.act.is("", c.name)
		err = call.act.begin(call.ctx, what.Detail)
	}
	if err != nil {
		defer call.leave()
		return nil, call.finish(err)
	}
	return call, nil
}

// bind has the call end with the visit, unless it winds up.
func (c *visitCall) bind(ctx context.Context, windsUp bool) {
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.stop = func() bool { return true }
	if valid := c.conn.valid; !windsUp {
		c.stop = context.AfterFunc(valid, func() { c.cancel(context.Cause(valid)) })
	}
}

// unbind ends what bind began.
func (c *visitCall) unbind() {
	c.stop()
	c.cancel(nil)
}

// outlast has a call go on when the visit ends. If the visit has ended, the call ends, too.
func (c *visitCall) outlast() error {
	if c.stop() || c.conn.valid.Err() == nil {
		return nil
	}
	return context.Cause(c.conn.valid)
}

// enter counts a call among those of its tenant, unless it winds up and the visit has ended.
func (c *visitConn) enter(ctx context.Context, windsUp bool) (leave func(), err error) {
	return c.pace(ctx, windsUp, time.Now().Add(paceTime), func(p Policy) (func(), error) { return c.g.loads.enter(c.caller.Tenant, p) })
}

// pace takes what the tenant may have. If the tenant calls too often, it waits: clients of SSH do not know how
// to come again. If there is none until then, it fails, and does not wait.
func (c *visitConn) pace(ctx context.Context, windsUp bool, until time.Time, take func(Policy) (func(), error)) (leave func(), err error) {
	for {
		if c.valid.Err() != nil && windsUp {
			return func() {}, nil
		}
		if why := ended(context.Cause(c.valid)); why != nil {
			return nil, why
		}
		policy, err := c.g.Tenants.Policy(ctx, c.caller.Tenant)
		if err != nil {
			return nil, c.g.untold(err)
		}
		leave, err = take(policy)
		wait, ok := errors.AsType[*busy](err)
		if !ok || wait.class != "rate" || time.Now().Add(wait.wait).After(until) {
			return leave, err
		}
		if delay.For(ctx, wait.wait); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// hold returns the sandbox, which it wakes if it sleeps, until the call leaves.
func (c *visitCall) hold() (*heldSandbox, error) {
	g, id := c.conn.g, launcherID(c.conn.caller.Tenant, c.conn.name)
	s, err := g.held.get(c.ctx, id, true)
	if err != nil {
		return nil, err
	}
	c.held = s
	if g.held.opened != nil {
		g.held.opened(c.ctx, id)
	}
	return s, nil
}

// finish notes how the call ends, and returns that as its client knows it: a status, or nil.
func (c *visitCall) finish(err error) error {
	g, id := c.conn.g, launcherID(c.conn.caller.Tenant, c.conn.name)
	if err != nil && c.held != nil && isSandboxGone(err) {
		g.held.drop(id, c.held)
	}
	s := g.grpcStatus(c.ctx, err)
	c.act.answered(s.Code())
	if err == nil {
		c.act.status.Store(http.StatusOK)
	}
	return s.Err()
}

// leave ends the call, after finish.
func (c *visitCall) leave() {
	c.once.Do(func() {
		c.unbind()
		if c.held != nil {
			c.conn.g.held.release(launcherID(c.conn.caller.Tenant, c.conn.name), c.held)
		}
		c.end()
	})
}

// know asks the agent about itself, if the sandbox is there and awake. A client of podapi asks that by itself
// before its first call: nobody has made a call, so that it is no act, and takes nothing of the rate. It reports
// false if it must be a call as others are: one that fails, or wakes the sandbox.
func (c *visitConn) know(ctx context.Context, args, reply any, opts []grpc.CallOption) bool {
	if c.valid.Err() != nil || CheckName(c.name) != nil {
		return false
	}
	call := &visitCall{conn: c, end: func() {}}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, callerKey{}, c.caller.Caller), knowTime)
	defer cancel()
	call.bind(ctx, false)
	defer call.leave()
	s, err := c.g.held.get(call.ctx, launcherID(c.caller.Tenant, c.name), false)
	if err != nil {
		return false
	}
	call.held = s
	return s.sandbox.Conn().Invoke(call.ctx, pb.Agent_Info_FullMethodName, args, reply, opts...) == nil
}
