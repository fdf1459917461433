package portforward

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RemoteError is what the node says about a port that it could not reach, or
// lost: nobody listens there, or the pod is gone.
//
// errors.Is(err, syscall.ECONNREFUSED) is true where Text has "connection
// refused", the system's own words for it. The text is all that nodes send, so
// that a false answer means only that it is not known: use it to wait for a
// program that starts, and for nothing that must not be wrong.
type RemoteError struct {
	// Text is what the node sent, at most 16 KiB of it.
	Text string
}

func (e *RemoteError) Error() string { return e.Text }

// Is reports whether target is syscall.ECONNREFUSED and the text says so.
func (e *RemoteError) Is(target error) bool {
	return target == syscall.ECONNREFUSED && strings.Contains(e.Text, "connection refused")
}

// errReset is the end of a data stream that the node broke off without a text.
var errReset = fmt.Errorf("the node broke off the stream: %w", syscall.ECONNRESET)

// errPeerClosed is for writes after the pod's clean close.
var errPeerClosed = fmt.Errorf("the pod has closed the connection: %w", syscall.EPIPE)

// lost is the error of a link that ended before the streams did. It is never
// io.EOF, which would say that all has arrived.
func lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("lost the connection to the API server: %w", err)
}

// bothFailed is the error of an upgrade that failed by both protocols. Where
// SPDY was refused that says it all, since both are refused for the same reasons.
func bothFailed(websocket, spdy error) error {
	var status *apierrors.StatusError
	if errors.As(spdy, &status) {
		return spdy
	}
	return fmt.Errorf("%w (and by WebSocket: %v)", spdy, websocket)
}
