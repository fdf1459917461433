package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// The bounds of a pipe to an SSH client, in bytes.
const (
	// pipeSize is what the system is asked to hold for each direction, so that both sides work at once: as
	// many bytes as a few of SSH's packets of 32 KiB.
	pipeSize = 256 << 10
	// pipeBuffer is what a read asks for, and what may wait to be written.
	pipeBuffer = 256 << 10
)

// pipe makes a connection of the standard streams. It has no deadlines.
type pipe struct {
	in   io.Reader
	from *bufio.Reader // in: the SSH library reads and writes small pieces
	to   *lateWriter
	out  io.Writer
}

var _ net.Conn = &pipe{}

func newPipe(in io.Reader, out io.Writer) *pipe {
	for _, s := range []any{in, out} {
		if f, ok := s.(*os.File); ok {
			growPipe(f)
		}
	}
	return &pipe{in: in, from: bufio.NewReaderSize(in, pipeBuffer), to: newLateWriter(out), out: out}
}

func (p *pipe) Read(b []byte) (int, error)  { return p.from.Read(b) }
func (p *pipe) Write(b []byte) (int, error) { return p.to.Write(b) }

// Close closes the streams that can be closed, which ends reads of pipes. What was written before still goes
// out, if the client takes it soon.
func (p *pipe) Close() error {
	err := closeStream(p.in)
	p.to.finish()
	return errors.Join(err, closeStream(p.out))
}

func closeStream(s any) error {
	c, ok := s.(io.Closer)
	if !ok {
		return nil
	}
	if err := c.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func (p *pipe) LocalAddr() net.Addr              { return pipeAddr{} }
func (p *pipe) RemoteAddr() net.Addr             { return pipeAddr{} }
func (p *pipe) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (p *pipe) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (p *pipe) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// pipeAddr is the address of both ends of a pipe.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
