package sshserver_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/sshserver"
)

// mute is a connection that can stop to read, as if it had been cut.
type mute struct {
	net.Conn
	deaf   atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (m *mute) Read(p []byte) (int, error) {
	if m.deaf.Load() {
		<-m.closed
		return 0, net.ErrClosed
	}
	return m.Conn.Read(p)
}

func (m *mute) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// keptAlive returns a client that is asked this often whether it is there, its connection, and what it is asked.
func (p *place) keptAlive(t *testing.T, k sshserver.KeepAlive) (*ssh.Client, *mute, <-chan *ssh.Request, <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			server := p.server("")
			server.KeepAlive = k
			err = server.Serve(context.Background(), conn)
		}
		served <- err
		close(served)
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := &mute{Conn: raw, closed: make(chan struct{})}
	c, channels, requests, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(p.key.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(c, channels, nil)
	t.Cleanup(func() {
		client.Close()
		_ = ended(t, served)
	})
	return client, conn, requests, served
}

func TestASilentClientIsEndedByKeepAlives(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	client, conn, requests, served := p.keptAlive(t, sshserver.KeepAlive{Period: time.Millisecond, Patience: 5 * time.Second})
	go ssh.DiscardRequests(requests) // which answers them, until the client is mute
	s := open(t, client)
	out, err := s.StdoutPipe()
	if err == nil {
		err = s.Start("echo begun; exec yes")
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, out, "begun\n")
	conn.deaf.Store(true) // and what yes says fills the connection
	if err := ended(t, served); !errors.Is(err, sshserver.ErrSilent) {
		t.Errorf("the server ended with %v", err)
	}
}

// The client answers for longer than it may take for one answer.
func TestAQuietClientThatAnswersStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const period, patience = 50 * time.Millisecond, 10 * time.Second
	client, _, requests, served := p.keptAlive(t, sshserver.KeepAlive{Period: period, Patience: patience})
	for range 2 * patience / period {
		select {
		case r, ok := <-requests:
			if !ok {
				t.Fatalf("the server ended: %v", ended(t, served))
			}
			if r.Type != "keepalive@openssh.com" || !r.WantReply {
				t.Fatalf("a request %q", r.Type)
			}
			if err := r.Reply(false, nil); err != nil {
				t.Fatal(err)
			}
		case <-time.After(hung):
			t.Fatal("the server does not ask")
		}
	}
	go ssh.DiscardRequests(requests)
	if out, err := open(t, client).Output("echo here"); err != nil || string(out) != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}
