package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Join connects to the agent that serves at address, and copies both ways
// between it and in and out, until the agent has closed the connection. At the end of
// in, Join closes the agent's input; the agent then has closeGrace to close the
// connection. When Join returns, a Read of in may still be waiting.
func Join(ctx context.Context, address string, in io.Reader, out io.Writer) error {
	conn, err := dialAgent(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent, received := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{conn}, in, make([]byte, joinBuffer))
		sent <- errors.Join(err, conn.CloseWrite())
	}()
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{conn}, make([]byte, joinBuffer))
		received <- err
	}()
	var grace <-chan time.Time
	for {
		select {
		case err := <-received:
			return err
		case err := <-sent:
			if err != nil {
				return err
			}
			grace = time.After(closeGrace)
		case <-grace:
			return fmt.Errorf("the agent at %s did not close the connection within %v", address, closeGrace)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// halfCloser is a connection by TCP or a unix socket.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

func dialAgent(ctx context.Context, address string) (halfCloser, error) {
	network, addr, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: joinTimeout}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the agent: %w", err)
	}
	return conn.(halfCloser), nil
}
