package podapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/internal/halves"
)

// Forward joins each connection that l accepts with one to a port of the sandbox,
// ends and resets included, until ctx ends or l fails. Then it closes l, resets the
// connections, and returns why. A connection fails alone: any goroutine calls report
// with its error, unless the local side caused it.
func (c *Client) Forward(ctx context.Context, l net.Listener, port int, report func(error)) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	for {
		local, err := l.Accept()
		switch {
		case err == nil:
			conns.Go(func() {
				if err := c.join(ctx, local, port); err != nil && ctx.Err() == nil {
					report(err)
				}
			})
		case ctx.Err() != nil:
			return ctx.Err()
		case passes(err):
			report(err)
			delay.For(ctx, acceptPause)
		default:
			return err
		}
	}
}

// passes reports whether an error of accepting says nothing of the listener: what is lacking, perhaps for all programs
// of the user, comes back.
func passes(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ENOSPC, syscall.ECONNABORTED,
	}, func(lack error) bool { return errors.Is(err, lack) })
}

// halfCloser is a connection whose two directions can end separately.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// join carries a connection to a port, and closes it. It returns the error of the
// port's side.
func (c *Client) join(ctx context.Context, conn net.Conn, port int) error {
	local, ok := conn.(halfCloser)
	if !ok {
		conn.Close()
		return fmt.Errorf("cannot forward connections of type %T, which have no CloseWrite", conn)
	}
	remote, err := c.dialPort(ctx, port)
	if err != nil {
		halves.Reset(local)
		return fmt.Errorf("connecting to port %d: %w", port, err)
	}
	defer context.AfterFunc(ctx, func() {
		halves.Reset(local)
		halves.Reset(remote)
	})()
	var up error
	var both sync.WaitGroup
	both.Go(func() { up = pass(remote, local) })
	down := pass(local, remote)
	both.Wait()
	local.Close()
	remote.Close()
	for _, err := range []error{down, up} {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr == remote.RemoteAddr() && !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
	return nil
}

// pass carries one direction and its end. On failure it resets both connections, so
// that neither side takes the failure for an end.
func pass(to, from halfCloser) error {
	// TCP's connections have methods of their own to copy, which would report the
	// errors of both sides as theirs. The structs hide these methods.
	_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		halves.Reset(to)
		halves.Reset(from)
	}
	return err
}
