package sshserver_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/sshserver"
)

// hung bounds the wait for what never comes.
const hung = time.Minute

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// place is a sandbox with a server of SSH.
type place struct {
	*launcher.Sandbox
	key ssh.Signer
	set func(*sshserver.Server) // changes each server; may be nil
}

func newPlace(t testing.TB) *place {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir() // a user's own files for shells have no say in tests, and are not left half done by shells that these end
	s, err := launchertest.Local(t).Launch(t.Context(), launcher.Spec{ID: t.Name(), Env: []string{"HOME=" + home}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &place{Sandbox: s, key: signer}
}

func (p *place) server(terminal string) *sshserver.Server {
	s := &sshserver.Server{Sandbox: p.Client, Workdir: p.Workdir, HostKey: p.key, Terminal: terminal}
	if p.set != nil {
		p.set(s)
	}
	return s
}

// connect returns a client, whose terminals have this name. The server ends before the test does.
func (p *place) connect(t testing.TB, terminal string) *ssh.Client {
	t.Helper()
	client, _ := p.serve(context.Background(), t, terminal)
	return client
}

// serve returns a client, and what Serve returns for it.
func (p *place) serve(ctx context.Context, t testing.TB, terminal string) (*ssh.Client, <-chan error) {
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
			err = p.server(terminal).Serve(ctx, conn)
		}
		served <- err
		close(served)
	}()
	client, err := ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(p.key.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		_ = ended(t, served)
	})
	return client, served
}

// ended waits until Serve has returned, and returns its error.
func ended(t testing.TB, served <-chan error) error {
	t.Helper()
	select {
	case err := <-served:
		return err
	case <-time.After(hung):
		t.Error("the server does not end")
		return nil
	}
}

// open returns a new session of the client.
func open(t testing.TB, c *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// until reads until text has come, and returns all.
func until(t testing.TB, r io.Reader, text string) string {
	t.Helper()
	var all []byte
	for one := make([]byte, 1); !bytes.HasSuffix(all, []byte(text)); all = append(all, one[0]) {
		if _, err := io.ReadFull(r, one); err != nil {
			t.Fatalf("%q did not come after %q: %v", text, all, err)
		}
	}
	return string(all)
}

// start starts a command, and returns its input and output.
func start(t testing.TB, s *ssh.Session, command string) (io.Writer, io.Reader) {
	t.Helper()
	in, out := pipes(t, s)
	if err := s.Start(command); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// pipes returns the input and output of what the session is to start.
func pipes(t testing.TB, s *ssh.Session) (io.WriteCloser, io.Reader) {
	t.Helper()
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

// terminal gives the session a terminal.
func terminal(t testing.TB, s *ssh.Session, modes ssh.TerminalModes) {
	t.Helper()
	if err := s.RequestPty("xterm-256color", 30, 100, modes); err != nil {
		t.Fatal(err)
	}
}

// await waits until the condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hung); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not come", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// content returns random bytes, the same for the same size.
func content(size int) []byte {
	data := make([]byte, size)
	r := mathrand.NewChaCha8([32]byte{byte(size)})
	_, _ = r.Read(data)
	return data
}
