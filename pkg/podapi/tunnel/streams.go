package tunnel

import (
	"fmt"
	"syscall"

	"google.golang.org/grpc"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// AgentStream is the agent's side of a call, after its opening.
type AgentStream struct {
	grpc.BidiStreamingServer[pb.DialRequest, pb.DialResponse]
	// Moved is called for all data.
	Moved func()

	sent pb.DialResponse
	got  pb.DialRequest
}

// Send implements [Stream].
func (s *AgentStream) Send(f Frame) error {
	switch {
	case f.Close:
		s.sent.Kind = &pb.DialResponse_Closed{Closed: &pb.DialClosed{}}
	case f.End:
		s.sent.Kind = &pb.DialResponse_End{End: &pb.DialEnd{}}
	case f.Limit > 0:
		s.sent.Kind = &pb.DialResponse_Ack{Ack: &pb.DialAck{Limit: f.Limit}}
	default:
		s.sent.Kind = &pb.DialResponse_Data{Data: f.Data}
		s.Moved()
	}
	return s.SendMsg(&s.sent)
}

// Recv implements [Stream].
func (s *AgentStream) Recv() (Frame, error) {
	s.got.Kind = nil
	if err := s.RecvMsg(&s.got); err != nil {
		return Frame{}, err
	}
	switch kind := s.got.Kind.(type) {
	case *pb.DialRequest_Data:
		s.Moved()
		return Frame{Data: kind.Data}, nil
	case *pb.DialRequest_Ack:
		return Frame{Limit: kind.Ack.GetLimit()}, nil
	case *pb.DialRequest_End:
		return Frame{End: true}, nil
	case *pb.DialRequest_Close:
		return Frame{Close: true}, nil
	}
	return Frame{}, errMessage(s.got.Kind)
}

// ClientStream is the caller's side of a call, after its opening.
type ClientStream struct {
	grpc.BidiStreamingClient[pb.DialRequest, pb.DialResponse]

	sent pb.DialRequest
	got  pb.DialResponse
}

// Send implements [Stream].
func (s *ClientStream) Send(f Frame) error {
	switch {
	case f.Close:
		s.sent.Kind = &pb.DialRequest_Close{Close: &pb.DialClose{}}
	case f.End:
		s.sent.Kind = &pb.DialRequest_End{End: &pb.DialEnd{}}
	case f.Limit > 0:
		s.sent.Kind = &pb.DialRequest_Ack{Ack: &pb.DialAck{Limit: f.Limit}}
	default:
		s.sent.Kind = &pb.DialRequest_Data{Data: f.Data}
	}
	return s.SendMsg(&s.sent)
}

// Recv implements [Stream].
func (s *ClientStream) Recv() (Frame, error) {
	s.got.Kind = nil
	if err := s.RecvMsg(&s.got); err != nil {
		return Frame{}, err
	}
	switch kind := s.got.Kind.(type) {
	case *pb.DialResponse_Data:
		return Frame{Data: kind.Data}, nil
	case *pb.DialResponse_Ack:
		return Frame{Limit: kind.Ack.GetLimit()}, nil
	case *pb.DialResponse_End:
		return Frame{End: true}, nil
	case *pb.DialResponse_Closed:
		return Frame{Close: true}, nil
	}
	return Frame{}, errMessage(s.got.Kind)
}

// errMessage is the error of a message that is out of order.
func errMessage(got any) error {
	return fmt.Errorf("unexpected message %T in the stream: %w", got, syscall.EINVAL)
}
