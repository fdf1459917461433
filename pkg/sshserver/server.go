// Package sshserver serves SSH over a sandbox: commands, shells, terminals, files (sftp),
// and connections to servers in it. It runs outside, and translates to package podapi, so
// that the sandbox needs no sshd, no key and no port.
//
// It promises:
//
//   - A command that ended clearly has its exit status or signal. If nobody knows how it
//     ended, standard error says why, and the status is 255.
//   - When a client goes, what it started gets HUP, as from a terminal that is closed, and
//     its output goes nowhere. What has none of the standard streams any more runs on, such
//     as a server in the background. A named terminal ([Server.Terminal]) runs on, and the
//     next client gets it with its screen.
//   - It reaches the sandbox and nothing else: -R, agents, X11 and other hosts are refused. The
//     standard error of the next command or shell says why; sftp, and clients that start nothing,
//     get no such text.
//   - Memory, channels, files and times have bounds (limits.go), whatever a client sends.
//
// It authenticates nobody: who may use the connection is decided by who gets it, or by who lets
// clients in ([Server.ServeClient]).
package sshserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/podapi"
)

// Version is what a server says it is. OpenSSH's client tells only servers of its own kind that nobody reads
// the output any more, without which "ssh job-1 yes | head -1" never ends; libssh and WinSCP name the ends of a
// symbolic link in the order that package sftp expects only to such servers, too. Beside that, OpenSSH's client
// says to them that it will open no more sessions, which needs no answer. A version before 7.8 would have
// clients work around faults that are not here.
const Version = "SSH-2.0-OpenSSH_9.9 podagent"

// Server serves SSH over one sandbox. Its fields stay as they are while it serves.
type Server struct {
	// Sandbox is where all that clients ask for is done. Its user stays the owner: Serve does
	// not close it, and several servers may share it.
	Sandbox *podapi.Client
	Workdir string // where relative paths of sftp start; absolute
	// FindWorkdir, unless nil, is asked for Workdir in its place, by each session of sftp.
	FindWorkdir func(ctx context.Context) (string, error)
	// HostKey is the key that clients pin. It has to be the same each time, and its private
	// half stays out of the sandbox.
	HostKey ssh.Signer
	// Terminal names the terminals of this client: a terminal that runs under the name is
	// attached to, and one that a client starts runs on without it. Empty leaves them without
	// a name. See [CheckTerminal].
	Terminal string
	// NoTerminals and NoPorts say that the client may have none.
	NoTerminals, NoPorts bool
	// Open, unless nil, is called for each channel, which is refused with its error. Leave is called
	// when the channel has ended.
	Open func() (leave func(), err error)
	// PerFile, unless nil, returns a context for the calls that read one open file, which belong together.
	PerFile func(ctx context.Context) context.Context
	// Memory and Disk, unless nil, count n more bytes that this process keeps for the files of clients, and return
	// false if there is no room for them. A negative n gives as many back, which there is always room for. So
	// several connections can have one bound. Ahead counts what is kept of files that are read: without room, they
	// are read in the pieces that the client asks for, which takes longer.
	Memory, Disk, Ahead func(n int64) bool
	// KeepAlive says when the client is asked whether it is there.
	KeepAlive KeepAlive
	// Closing, unless nil, ends when the client should leave: the connection ends as soon as it has
	// no channels.
	Closing context.Context
	Log     *slog.Logger // gets what clients are refused; nil discards it

	idle time.Duration // how long an open file that nobody reads keeps blocks; zero is idleTime
}

// Serve serves the connection until the client ends it or ctx ends, and closes it. It returns
// when everything has ended that it did for the client, which takes a second or two for
// commands that ignore HUP, and some ten more if the sandbox cannot be reached. The error is nil if the client ended the connection, the cause of
// ctx if that ended first, and else says what broke: the client does not speak SSH, took
// longer than 30 seconds to begin, does not answer any more ([ErrSilent]), or the connection was cut.
func (s *Server) Serve(ctx context.Context, conn net.Conn) error {
	client, channels, requests, err := s.LetIn(ctx, conn)
	if err != nil {
		return err
	}
	return s.ServeClient(ctx, client, channels, requests)
}

// LetIn is the first half of Serve, which needs HostKey alone: the sandbox may be opened meanwhile. What it
// returns is for ServeClient. It has closed the connection if it returns an error.
func (s *Server) LetIn(ctx context.Context, conn net.Conn) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	late := time.AfterFunc(loginTime, func() { conn.Close() })
	config := NewConfig(s.HostKey)
	config.NoClientAuth = true
	client, channels, requests, err := ssh.NewServerConn(conn, config)
	inTime := late.Stop()
	if err != nil {
		conn.Close()
		return nil, nil, nil, cmp.Or(context.Cause(ctx), whyNotBegun(err, inTime))
	}
	return client, channels, requests, nil
}

// ServeClient is Serve for a client that was let in: with what [ssh.NewServerConn] returns. HostKey does not
// count then.
func (s *Server) ServeClient(ctx context.Context, client *ssh.ServerConn, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) error {
	defer client.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	c := &connection{
		server: s, client: client, memory: room{limit: maxMemory, beyond: s.Memory},
		disk: room{limit: maxSpools * maxSpool, beyond: s.Disk}, ahead: room{limit: maxAhead, beyond: s.Ahead},
	}
	if s.Closing != nil {
		defer context.AfterFunc(s.Closing, c.closing)()
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { c.answer(requests) })
	tasks.Go(func() { c.keepAlive(ctx, func() { cancel(ErrSilent) }) })
	for opened := range channels {
		c.open(ctx, opened, &tasks)
	}
	err := whyEnded(client)
	err = cmp.Or(context.Cause(ctx), err) // the end of ctx closes the connection
	cancel(nil)
	tasks.Wait()
	return err
}

// whyNotBegun says more than an error of the key exchange.
func whyNotBegun(err error, inTime bool) error {
	switch {
	case !inTime:
		return fmt.Errorf("the client took longer than %v to begin SSH: %w", loginTime, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
		return fmt.Errorf("the client left before SSH had begun, as one does that refuses the host key: %w", err)
	}
	return fmt.Errorf("beginning SSH: %w", err)
}

// whyEnded waits for the end of a connection, and returns nil if its client wanted that. The
// type of the error of a disconnect message is private to package ssh, so its text has to tell.
func whyEnded(client *ssh.ServerConn) error {
	err := client.Wait()
	if errors.Is(err, io.EOF) || strings.HasPrefix(err.Error(), "ssh: disconnect, ") {
		return nil
	}
	return err
}

// workdir returns where relative paths start.
func (s *Server) workdir(ctx context.Context) (string, error) {
	if s.FindWorkdir == nil {
		return s.Workdir, nil
	}
	return s.FindWorkdir(ctx)
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}
