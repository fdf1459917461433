package podapi

import (
	"io"

	"google.golang.org/grpc"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// upload is a call that carries content to the agent, as much as the agent lets it
// send. It receives the agent's replies only when it needs them: to send more, or to
// know how the call ended. The few acks that wait until then hold up nobody.
type upload struct {
	stream grpc.ClientStream
	reply  uploadReply // what was received last
	sent   int64
	limit  int64 // of sent
}

type uploadReply interface{ GetAck() *pb.UploadAck }

func newUpload(stream grpc.ClientStream, reply uploadReply) *upload {
	return &upload{stream: stream, reply: reply, limit: wire.UploadWindow}
}

// send sends a message with so many bytes of content, at most wire.ChunkSize, when
// the agent lets it. When the agent has ended the call, its reason is the error.
func (u *upload) send(message any, content int) error {
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
// that even a clean end of the call means a cut.
func (u *upload) receive() error {
	if err := u.stream.RecvMsg(u.reply); err != nil {
		return cutError(err)
	}
	u.limit = max(u.limit, u.reply.GetAck().GetLimit())
	return nil
}

// finish receives the replies that are left, when all was sent, until ended reports
// that the last one has come.
func (u *upload) finish(ended func() bool) error {
	if err := u.stream.CloseSend(); err != nil {
		return err
	}
	for !ended() {
		if err := u.receive(); err != nil {
			return err
		}
	}
	return nil
}
