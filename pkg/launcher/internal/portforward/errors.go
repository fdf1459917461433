package portforward

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RemoteError is the node's text about a port that it could not reach, or lost: nobody
// listens there, or the pod is gone.
//
// errors.Is(err, syscall.ECONNREFUSED) is true if Text has "connection refused", the
// system's own words for it. Nodes send only the text, so false means only that the
// reason is not known. That is good enough to wait for a program that starts, and for
// nothing that depends on it.
type RemoteError struct {
	// Text is what the node sent, at most 16 KiB of it.
	Text string
}

func (e *RemoteError) Error() string { return e.Text }

// Is reports whether target is syscall.ECONNREFUSED and the text says so.
func (e *RemoteError) Is(target error) bool {
	return target == syscall.ECONNREFUSED && strings.Contains(e.Text, "connection refused")
}

// errReset is the error of a data stream that the node broke off without a text.
var errReset = fmt.Errorf("the node broke off the stream: %w", syscall.ECONNRESET)

// errPeerClosed is the error of writes after the pod's clean close.
var errPeerClosed = fmt.Errorf("the pod has closed the connection: %w", syscall.EPIPE)

// lost returns the error of a link that ended before the streams did. It is never
// io.EOF, which would mean that everything has arrived.
func lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("lost the connection to the API server: %w", err)
}

// bothFailed returns the error of an upgrade that failed by both protocols. If SPDY
// was refused, that is enough: both are refused for the same reasons.
func bothFailed(websocket, spdy error) error {
	var status *apierrors.StatusError
	if errors.As(spdy, &status) {
		return spdy
	}
	return fmt.Errorf("%w (and by WebSocket: %v)", spdy, websocket)
}
