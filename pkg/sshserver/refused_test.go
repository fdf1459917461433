package sshserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func TestPortsOfTheSandboxAloneAreReached(t *testing.T) {
	c := newPlace(t).connect(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0") // of the local backend, whose ports are this machine's
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		_, _ = fmt.Fprintf(conn, "%d bytes", len(all))
	}()
	port := l.Addr().(*net.TCPAddr).Port
	conn, err := c.Dial("tcp", fmt.Sprint("localhost:", port))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || string(answer) != fmt.Sprint(3<<20, " bytes") {
		t.Errorf("%q, %v", answer, err)
	}
	l.Close()
	for address, want := range map[string]string{
		"example.com:80": "only ports of the sandbox itself", "10.0.0.1:22": "only ports of the sandbox itself",
		fmt.Sprint("127.0.0.1:", port): "refused",
	} {
		_, err := c.Dial("tcp", address)
		opened, ok := errors.AsType[*ssh.OpenChannelError](err)
		if !ok || !strings.Contains(opened.Message, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestWhatIsNotServedIsRefusedWithAReason(t *testing.T) {
	c := newPlace(t).connect(t, "")
	if _, err := c.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("-R was taken")
	}
	if _, _, err := c.OpenChannel("direct-streamlocal@openssh.com", nil); !strings.Contains(fmt.Sprint(err), "only sessions and connections to TCP ports") {
		t.Error(err)
	}
	if _, _, err := c.OpenChannel("direct-tcpip", []byte("no address")); err == nil {
		t.Error("an address without a form was taken")
	}
	s := open(t, c)
	for _, kind := range []string{"auth-agent-req@openssh.com", "x11-req", "signal", "unknown"} {
		if ok, err := s.SendRequest(kind, true, nil); ok || err != nil {
			t.Errorf("%s: %v, %v", kind, ok, err)
		}
	}
	var stderr bytes.Buffer
	s.Stderr = &stderr
	if err := s.Run("true"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-R is refused", "agent", "X11"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("standard error does not say %q: %q", want, &stderr)
		}
	}
	s = open(t, c)
	if err := s.RequestSubsystem("netconf"); err == nil {
		t.Error("another subsystem was taken")
	}
	start(t, s, "cat")
	if ok, err := s.SendRequest("exec", true, ssh.Marshal(struct{ C string }{"true"})); ok || err != nil {
		t.Errorf("a second command in one session: %v, %v", ok, err)
	}
}

func TestTenThousandChannelsAreBounded(t *testing.T) {
	c := newPlace(t).connect(t, "")
	var taken, refused atomic.Int64
	var opening sync.WaitGroup
	var mu sync.Mutex
	var channels []ssh.Channel
	for range 100 {
		opening.Go(func() {
			for range 100 {
				channel, requests, err := c.OpenChannel("session", nil)
				if opened, ok := errors.AsType[*ssh.OpenChannelError](err); ok && opened.Reason == ssh.ResourceShortage {
					refused.Add(1)
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				taken.Add(1)
				go ssh.DiscardRequests(requests)
				mu.Lock()
				channels = append(channels, channel)
				mu.Unlock()
			}
		})
	}
	opening.Wait()
	if taken.Load() != 128 || refused.Load() != 10000-128 {
		t.Errorf("%d channels were opened, %d refused", taken.Load(), refused.Load())
	}
	for _, channel := range channels {
		channel.Close()
	}
	await(t, "a channel", func() bool {
		s, err := c.NewSession()
		if err != nil {
			return false
		}
		defer s.Close()
		return s.Run("true") == nil
	})
}

func TestASlowReaderHoldsUpNobodyElse(t *testing.T) {
	c := newPlace(t).connect(t, "")
	slow := open(t, c)
	_, out := start(t, slow, "yes | head -c 20000000; echo end")
	if said, err := open(t, c).Output("echo quick"); string(said) != "quick\n" {
		t.Errorf("%q, %v", said, err)
	}
	n, err := io.Copy(io.Discard, out)
	if n != 20000000+4 || err != nil || slow.Wait() != nil {
		t.Errorf("%d bytes of the slow reader, %v", n, err)
	}
}

func TestServeSaysWhyItEnded(t *testing.T) {
	p := newPlace(t)
	client, served := p.serve(t.Context(), t, "")
	client.Close()
	if err := ended(t, served); err != nil {
		t.Errorf("the client ended it: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	client, served = p.serve(ctx, t, "")
	start(t, open(t, client), "sleep 601")
	cause := errors.New("enough")
	cancel(cause)
	if err := ended(t, served); !errors.Is(err, cause) {
		t.Errorf("its context ended: %v", err)
	}
}

func TestAClientThatDoesNotSpeakSSHIsRefused(t *testing.T) {
	p := newPlace(t)
	for _, said := range []string{"GET / HTTP/1.1\r\n\r\n", strings.Repeat("x", 1<<20), "SSH-2.0-x\r\n\xff\xff\xff\xff\x00", ""} {
		ours, theirs := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- p.server("").Serve(context.Background(), ours) }()
		go io.Copy(io.Discard, theirs)
		_, _ = io.WriteString(theirs, said)
		theirs.Close()
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "SSH had begun") && !strings.HasPrefix(err.Error(), "beginning SSH: ") {
				t.Errorf("%.20q: %v", said, err)
			}
		case <-time.After(hung):
			t.Fatalf("%.20q holds the server", said)
		}
	}
}

func TestAHugePacketOfSftpEndsItsSessionAlone(t *testing.T) {
	c := newPlace(t).connect(t, "")
	for _, packet := range []string{"\xff\xff\xff\xff\x03", "\x00\x04\x00\x01\x01", "\x00\x00\x00\x00", "\x00\x00\x00\x05\xc8\x00\x00\x00\x01"} {
		s := open(t, c)
		in, out := pipes(t, s)
		if err := s.RequestSubsystem("sftp"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, packet); err != nil {
			t.Fatal(err)
		}
		in.Close()
		if n, err := io.Copy(io.Discard, out); n > 1000 || err != nil {
			t.Errorf("%q: %d bytes, %v", packet, n, err)
		}
	}
	if said, err := open(t, c).Output("echo others go on"); string(said) != "others go on\n" {
		t.Errorf("%q, %v", said, err)
	}
}

func TestNoEscapeOfANameReachesTheClientsTerminal(t *testing.T) {
	c := newPlace(t).connect(t, "")
	s := open(t, c)
	if err := s.Setenv("PATH", "/nowhere"); err != nil { // so that no shell says it
		t.Fatal(err)
	}
	out, err := s.CombinedOutput("/no/\x1bcprogram\x07")
	exit, ok := errors.AsType[*ssh.ExitError](err)
	if !ok || exit.ExitStatus() != 127 || !strings.Contains(string(out), "/no/?cprogram?") {
		t.Errorf("%q, %v", out, err)
	}
	_, _, err = c.OpenChannel("direct-tcpip", ssh.Marshal(struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}{"\x1bchost\x07", 80, "", 0}))
	if opened, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || strings.ContainsAny(opened.Message, "\x1b\x07") {
		t.Errorf("%q", err)
	}
}
