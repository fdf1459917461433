package podapi

import (
	"io"

	"google.golang.org/grpc"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// upload is a call that sends content to the agent, as much as the agent allows. It
// receives the agent's replies only when it needs them: to send more, or to learn
// how the call ended. The few acks that wait meanwhile block nobody.
type upload struct {
	stream grpc.ClientStream
	reply  uploadReply // what was received last
	sent   int64
	limit  int64 // of sent
	idle   idleMessages
}

type uploadReply interface{ GetAck() *pb.UploadAck }

func newUpload(stream grpc.ClientStream, reply uploadReply) *upload {
	return &upload{stream: stream, reply: reply, limit: wire.UploadWindow}
}

// send sends a message with this many bytes of content, at most wire.ChunkSize,
// when the agent allows it. If the agent has ended the call, send returns its
// reason. After the end of the call's context it sends nothing.
func (u *upload) send(message any, content int) error {
	// gRPC notices the end of a context later, and the agent would take an end of the
	// content that was sent meanwhile.
	if err := u.stream.Context().Err(); err != nil {
		return err
	}
	u.sent += int64(content)
	for u.sent > u.limit {
		if err := u.receive(); err != nil {
			return err
		}
	}
	err := u.stream.SendMsg(message)
	if err != io.EOF {
		return err
	}
	for err = nil; err == nil; { // acks come before the reason
		err = u.receive()
	}
	return err
}

// receive receives the agent's next reply. It is not called after the last one, so
// even a clean end of the call means a cut.
func (u *upload) receive() error {
	if err := u.stream.RecvMsg(u.reply); err != nil {
		return cutError(err)
	}
	if limit := u.reply.GetAck().GetLimit(); limit > u.limit {
		u.limit = limit
		return nil
	}
	return u.idle.add()
}

// finish receives the remaining replies after everything was sent, until ended
// reports that the last one has come.
func (u *upload) finish(ended func() bool) error {
	if err := u.stream.CloseSend(); err != nil {
		return err
	}
	for !ended() {
		if err := firstError(u.receive(), u.idle.add()); err != nil { // acks are of no use any more
			return err
		}
	}
	return nil
}
