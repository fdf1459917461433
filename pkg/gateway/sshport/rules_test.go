package sshport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/sshport"
)

func TestAnotherTenantsKeyGetsNothing(t *testing.T) {
	needs(t, "ssh", "sftp")
	t.Parallel()
	d := newDoor(t)
	other := d.options(d.bob)
	_, there, status := d.ssh(d.bob, "box", "id")
	_, nowhere, _ := d.ssh(d.bob, "bot", "id")
	if status != 255 || there != strings.ReplaceAll(nowhere, `"bot"`, `"box"`) || !strings.Contains(there, "no such sandbox") {
		t.Errorf("of another tenant: %d %q; that is not: %q", status, there, nowhere)
	}
	if _, said, status := d.run("ls\n", "sftp", append(other, "-b", "-", "box@127.0.0.1")...); status == 0 || !strings.Contains(said, "no such sandbox") {
		t.Errorf("sftp: %d %s", status, said)
	}
	client := d.connected(d.bob, "box")
	if conn, err := client.Dial("tcp", d.address); err == nil || !strings.Contains(err.Error(), "no such sandbox") {
		t.Errorf("a port: %v, %v", conn, err)
	}
	if conn, err := client.Dial("tcp", "192.0.2.1:80"); err == nil || !strings.Contains(err.Error(), "give localhost") {
		t.Errorf("a port elsewhere: %v, %v", conn, err)
	}
	for _, name := range []string{"acme.box", "../acme.box", "box/../box", "Box", "", "-", strings.Repeat("a", 1000), "box\x00", "\x1b[2J"} {
		session, err := d.connected(d.bob, name).NewSession()
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		var said strings.Builder
		session.Stderr = &said
		if err := session.Run("id"); err == nil || strings.Contains(said.String(), "uid=") || strings.Contains(said.String(), "\x1b") {
			t.Errorf("%q: %v, %q", name, err, said.String())
		}
	}
	for _, act := range d.acts(t, 13) {
		if act.Tenant != "other" || act.Status == 200 {
			t.Errorf("an act: %+v", act)
		}
	}
}

func TestKeyThatIsNobodysIsRefusedAlikeForAllNames(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	stranger := newKey(t)
	var said []string
	for _, name := range []string{"box", "nowhere", "box+main", strings.Repeat("x", 300)} {
		client, err := d.connect(stranger, name)
		if err == nil {
			client.Close()
			t.Fatalf("%q lets a stranger in", name)
		}
		said = append(said, err.Error())
	}
	for _, text := range said {
		if text != said[0] || !strings.Contains(text, "unable to authenticate") {
			t.Errorf("%q is not %q", text, said[0])
		}
	}
	for _, auth := range []ssh.AuthMethod{ssh.Password("password"), ssh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) { return nil, nil })} {
		client, err := ssh.Dial("tcp", d.address, &ssh.ClientConfig{User: "box", Auth: []ssh.AuthMethod{auth}, HostKeyCallback: ssh.FixedHostKey(d.host.PublicKey())})
		if err == nil {
			client.Close()
			t.Error("a client without a key is let in")
		}
	}
	await(t, "refusals are told", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.refused) == len(said)+2 && d.refused[0] == "401 unauthenticated"
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.begun) != 0 {
		t.Errorf("a client that was not let in has made a call: %+v", d.begun)
	}
}

func TestRevokedKeyEndsItsConnectionsAndWhatRunsInThem(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	client := d.connected(d.ann, "box")
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := session.StdoutPipe()
	if err := session.Start("trap 'echo gone > hup; exit' HUP; echo runs; while :; do sleep 0.05; done"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("runs\n"))); err != nil {
		t.Fatal(err)
	}
	d.setKeys("", nil, []string{d.bob.line("bob")})
	_ = client.Wait()
	await(t, "the command gets HUP", func() bool {
		_, err := os.Stat(filepath.Join(d.box.Workdir, "hup"))
		return err == nil
	})
	if again, err := d.connect(d.ann, "box"); err == nil {
		again.Close()
		t.Error("the key still counts")
	}
	signal := d.of(t, "ssh.processes/Signal", 1)[0]
	if signal.Tenant != "acme" || signal.ExecID != d.of(t, "ssh.processes/Exec", 1)[0].ExecID {
		t.Errorf("the hangup: %+v", signal)
	}
}

func TestKeyOfARestrictedLineHasNoTerminalsAndNoPorts(t *testing.T) {
	needs(t, "ssh")
	t.Parallel()
	d := newDoor(t)
	d.setKeys("", []string{"restrict " + d.ann.line("ann"), `from="192.0.2.0/24" ` + newKey(t).line("far")}, []string{`from="!127.0.0.1,127.0.0.0/8" ` + d.bob.line("bob")})
	if out, said, status := d.ssh(d.ann, "box", "-tt", "echo ran"); out != "" || status != 255 || !strings.Contains(said, "PTY allocation request failed") {
		t.Errorf("%q, %q, %d", out, said, status)
	}
	if conn, err := d.connected(d.ann, "box").Dial("tcp", "localhost:1"); err == nil || !strings.Contains(err.Error(), "no ports") {
		t.Errorf("a port: %v, %v", conn, err)
	}
	if client, err := d.connect(d.bob, "box"); err == nil {
		client.Close()
		t.Error("an address that may not")
	}
	d.setKeys("", []string{`expiry-time="20200101Z" ` + d.ann.line("ann")}, nil)
	if client, err := d.connect(d.ann, "box"); err == nil {
		client.Close()
		t.Error("a key that has expired")
	}
}

func TestCommandThatCannotBeRecordedIsNotRun(t *testing.T) {
	needs(t, "ssh")
	t.Parallel()
	d := newDoor(t)
	d.mu.Lock()
	d.failing = errors.New("the disk is full")
	d.mu.Unlock()
	if _, said, status := d.ssh(d.ann, "box", "touch ran"); status != 255 || !strings.Contains(said, "cannot record") {
		t.Errorf("%d, %q", status, said)
	}
	if _, err := os.Stat(filepath.Join(d.box.Workdir, "ran")); err == nil {
		t.Error("it ran")
	}
}

// A client of SSH does not know how to come again, so it waits.
func TestCallsBeyondTheRateWait(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.setKeys("    rate: {requests_per_second: 20, burst: 2}\n", []string{d.ann.line("ann")}, nil)
	client := d.connected(d.ann, "box")
	begun := time.Now()
	for range 10 {
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Run("true"); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took < 8*time.Second/20 {
		t.Errorf("10 commands have taken %v", took)
	}
}

func TestStreamsOfATenantAreBoundedAlsoBySSH(t *testing.T) {
	needs(t, "ssh")
	t.Parallel()
	d := newDoor(t)
	d.setKeys("    streams: 1\n", []string{d.ann.line("ann")}, nil)
	session, err := d.connected(d.ann, "box").NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := session.StdoutPipe()
	if err := session.Start("echo runs; sleep 1000"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("runs\n"))); err != nil {
		t.Fatal(err)
	}
	if _, said, status := d.ssh(d.ann, "box", "true"); status != 255 || !strings.Contains(said, "as many requests under way") {
		t.Errorf("%d, %q", status, said)
	}
}

func TestTerminalGoesOnAtAnotherGateway(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	begin := func(c *ssh.Client) (io.Writer, io.Reader) {
		t.Helper()
		session, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		in, _ := session.StdinPipe()
		out, _ := session.StdoutPipe()
		if err := errors.Join(session.RequestPty("xterm", 24, 80, nil), session.Start("echo begun; read word; echo got $word; read word")); err != nil {
			t.Fatal(err)
		}
		return in, out
	}
	_, out := begin(d.connected(d.ann, "box+main"))
	until(t, out, "begun")
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // without patience
	if err := d.gateway.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Errorf("the end of the gateway: %v", err)
	}

	second := gateway.New(gateway.Options{Launcher: d.launcher, Tenants: &gateway.Keys{Path: d.keys}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := &sshport.Port{Gateway: second, HostKeys: []ssh.Signer{d.host}}
	go func() { _ = port.Serve(listener) }()
	t.Cleanup(func() {
		listener.Close()
		_ = second.Close()
		port.Wait()
	})
	d.address = listener.Addr().String()
	in, out := begin(d.connected(d.ann, "box+main"))
	until(t, out, "begun")
	fmt.Fprint(in, "there\r")
	until(t, out, "got there")
}

// until reads until text has come.
func until(t testing.TB, r io.Reader, text string) {
	t.Helper()
	var all []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(all), text); all = append(all, one[0]) {
		if _, err := io.ReadFull(r, one); err != nil {
			t.Fatalf("%q did not come after %q: %v", text, all, err)
		}
	}
}

func TestGatewayThatEndsEndsConnectionsWithoutSessionsFirst(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	idle, busy := d.connected(d.ann, "box"), d.connected(d.ann, "box")
	session, err := busy.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, _ := session.StdinPipe()
	out, _ := session.StdoutPipe()
	if err := session.Start("echo begun; cat"); err != nil {
		t.Fatal(err)
	}
	until(t, out, "begun\n")
	ended := make(chan error, 1)
	go func() { ended <- d.gateway.Shutdown(context.Background()) }()
	_ = idle.Wait()
	if _, err := busy.NewSession(); err == nil || !strings.Contains(err.Error(), "connect again") {
		t.Errorf("another session: %v", err)
	}
	fmt.Fprintln(in, "still served")
	until(t, out, "still served\n")
	if _, err := d.connected(d.ann, "box").NewSession(); err == nil || !strings.Contains(err.Error(), "this gateway ends") {
		t.Errorf("a new connection: %v", err)
	}
	in.Close()
	if err := session.Wait(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
