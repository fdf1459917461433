package main

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// pipe makes a connection of the standard streams. It has no deadlines.
type pipe struct {
	in  io.Reader
	out io.Writer
}

var _ net.Conn = pipe{}

func (p pipe) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p pipe) Write(b []byte) (int, error) { return p.out.Write(b) }

// Close closes the streams that can be closed, which ends reads of pipes.
func (p pipe) Close() error {
	var errs []error
	for _, s := range []any{p.in, p.out} {
		if c, ok := s.(io.Closer); ok {
			if err := c.Close(); !errors.Is(err, os.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func (p pipe) LocalAddr() net.Addr              { return pipeAddr{} }
func (p pipe) RemoteAddr() net.Addr             { return pipeAddr{} }
func (p pipe) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (p pipe) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (p pipe) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// pipeAddr is the address of both ends of a pipe.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
