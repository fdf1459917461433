package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"
	"syscall"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/cmd/podagent/internal/admission"
	"github.com/podagent/podagent/cmd/podagent/internal/proc"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// domainErrors translates the errors of packages proc and checkpoint, which know no contract, to those
// of the contract.
var domainErrors = []struct{ from, to error }{
	{proc.ErrConflict, wire.ErrConflict},
	{proc.ErrStdinClosed, wire.ErrStdinClosed},
	{proc.ErrStalled, wire.ErrStalled},
	// An earlier call may arrive after the one that replaced it. The later call's
	// reader is then detached, and its caller attaches again.
	{proc.ErrReplaced, wire.ErrUnavailable},
	{proc.ErrTooOld, wire.ErrExecExpired},
	{proc.ErrShutdown, wire.ErrUnavailable},
	// And those of package checkpoint.
	{checkpoint.ErrUnfinished, syscall.EBUSY}, // which may wrap others of them
	{checkpoint.ErrNotFound, fs.ErrNotExist},
	{checkpoint.ErrCorrupt, fsops.ErrChecksum},
	{checkpoint.ErrTooLarge, syscall.EFBIG},
	{checkpoint.ErrNoRoom, syscall.ENOSPC},
	{fs.ErrInvalid, syscall.EINVAL},
}

// status returns a handler's error as it goes onto the wire.
func status(err error) error {
	for _, m := range domainErrors {
		if errors.Is(err, m.from) {
			err = &renamedError{error: err, is: m.to}
			break
		}
	}
	return wire.ToStatus(err)
}

// A renamedError keeps the text of an error, and is also another one.
type renamedError struct {
	error
	is error
}

func (e *renamedError) Unwrap() []error { return []error{e.error, e.is} }

// asksOnly reports whether a method counts as no activity: it only asks for the agent's
// state, or is a connection whose bytes count instead, or waits for such ones.
func asksOnly(method string) bool {
	switch method {
	case pb.Agent_Info_FullMethodName, pb.Agent_Stats_FullMethodName, pb.Processes_List_FullMethodName,
		pb.Ports_Dial_FullMethodName, pb.Ports_List_FullMethodName, pb.Egress_Serve_FullMethodName, pb.Egress_Carry_FullMethodName:
		return true
	}
	return isHealth(method)
}

func isHealth(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.") }

// unary wraps every unary handler: its connection, activity, panics, errors.
func (a *Agent) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	end, err := admission.Begin(ctx)
	if err != nil {
		return nil, status(fmt.Errorf("%w: %w", wire.ErrUnavailable, err))
	}
	defer end()
	if err := a.assignment.admits(info.FullMethod); err != nil {
		return nil, status(err)
	}
	if !asksOnly(info.FullMethod) {
		defer a.activity.begin()()
	}
	defer a.recovered(info.FullMethod, &err)
	if err := a.settle(ctx, info.FullMethod); err != nil {
		return nil, status(err)
	}
	response, err = handler(ctx, request)
	return response, a.logged(info.FullMethod, err)
}

// stream wraps every streaming handler: its connection, activity, panics, errors.
func (a *Agent) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	end, err := admission.Begin(stream.Context())
	if err != nil {
		return status(fmt.Errorf("%w: %w", wire.ErrUnavailable, err))
	}
	defer end()
	if err := a.assignment.admits(info.FullMethod); err != nil {
		return status(err)
	}
	if !asksOnly(info.FullMethod) {
		defer a.activity.begin()()
	}
	defer a.recovered(info.FullMethod, &err)
	if err := a.settle(stream.Context(), info.FullMethod); err != nil {
		return status(err)
	}
	return a.logged(info.FullMethod, handler(service, stream))
}

func (a *Agent) logged(method string, err error) error {
	if err != nil {
		a.log.Debug("call failed", "method", method, "error", err)
	}
	return status(err)
}

// recovered turns a panic of a handler into an error of its call, so that one
// call cannot end the processes of all others.
func (a *Agent) recovered(method string, err *error) {
	if v := recover(); v != nil {
		a.log.Error("handler panicked", "method", method, "panic", v, "stack", string(debug.Stack()))
		*err = status(fmt.Errorf("internal error in %s: %v", method, v))
	}
}
