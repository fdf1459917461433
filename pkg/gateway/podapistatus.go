package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podagent/podagent/pkg/launcher/errclass"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// grpcCodes are the codes of the problems that callers of REST get by these statuses.
var grpcCodes = map[int]codes.Code{
	http.StatusUnauthorized:        codes.Unauthenticated,
	http.StatusForbidden:           codes.PermissionDenied,
	http.StatusNotFound:            codes.NotFound,
	http.StatusConflict:            codes.FailedPrecondition,
	http.StatusGone:                codes.FailedPrecondition,
	http.StatusUnprocessableEntity: codes.InvalidArgument,
	http.StatusTooManyRequests:     codes.ResourceExhausted,
	http.StatusNotImplemented:      codes.Unimplemented,
	http.StatusBadGateway:          codes.Internal,
	http.StatusServiceUnavailable:  codes.Unavailable,
	http.StatusGatewayTimeout:      codes.DeadlineExceeded,
}

// grpcStatus returns the status for how a call of podapi ended: the agent's own, or the gateway's.
func (g *Gateway) grpcStatus(ctx context.Context, err error) *status.Status {
	a := actOf(ctx)
	if err == nil {
		return status.New(codes.OK, "")
	}
	unknown, isUnknown := err.(*unknownMethod)
	of, isStatus := err.(interface{ GRPCStatus() *status.Status })
	switch {
	case isUnknown:
		a.failed("unsupported")
		a.status.Store(http.StatusNotImplemented)
		return status.New(codes.Unimplemented, cut(unknown.Error()))
	case isStatus && ended(context.Cause(ctx)) == nil:
		s := agentStatus(of.GRPCStatus())
		class, like := classify(wire.FromStatus(s.Err()))
		if class == "cancelled" {
			like = http.StatusServiceUnavailable // nobody reads it
		}
		a.failed(class)
		a.status.Store(int32(like))
		return s
	}
	p := problemOf(g.problem(ctx, err))
	a.status.Store(int32(p.Status))
	return problemStatus(p, busyFor(err))
}

// agentStatus returns the status that an agent, or the way to it, has ended a call with. Agents may be
// hostile: of its details only the error passes, so that none seems to be the gateway's.
func agentStatus(s *status.Status) *status.Status {
	clean := status.New(s.Code(), cut(s.Message()))
	if e := wire.Detail(s.Err()); e != nil {
		return withDetails(clean, e)
	}
	return clean
}

// problemStatus returns a problem as a status. Its class is there by name, and as podapi's nearest one,
// for clients that know no gateway. What is unavailable is so to them as if the way to the agent were cut:
// who waits for a command goes on waiting.
func problemStatus(p *Problem, wait time.Duration) *status.Status {
	code, ok := grpcCodes[p.Status]
	if !ok {
		code = codes.Unknown
	}
	message := cut(p.Detail)
	info := &errdetails.ErrorInfo{Reason: p.Class, Domain: errclass.Domain}
	if p.Until != nil {
		info.Metadata = map[string]string{"until": p.Until.Format(time.RFC3339)}
	}
	details := []protoadapt.MessageV1{info}
	if code != codes.Unavailable {
		details = append(details, &pb.Error{Class: nearestClass(p, wait), Message: message})
	}
	if wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	return withDetails(status.New(code, message), details...)
}

// nearestClass is the class of podapi that a problem is of; the one without a meaning for others.
func nearestClass(p *Problem, wait time.Duration) pb.Class {
	switch {
	case wait > 0:
		return pb.Class_CLASS_UNAVAILABLE
	case p.Status == http.StatusBadGateway:
		return pb.Class_CLASS_UNSPECIFIED // not the caller failed, but the gateway at the agent
	}
	return pb.Class(pb.Class_value["CLASS_"+strings.ToUpper(p.Class)])
}

func withDetails(s *status.Status, details ...protoadapt.MessageV1) *status.Status {
	if with, err := s.WithDetails(details...); err == nil {
		return with
	}
	return s
}

// cut returns a text that is short enough for a header, and UTF-8.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), statusTextLimit)], "\uFFFD")
}

// codeName returns the name of a code of gRPC. An agent may answer with any number.
func codeName(c codes.Code) string {
	if name, ok := code.Code_name[int32(c)]; ok {
		return name
	}
	return code.Code_UNKNOWN.String()
}
