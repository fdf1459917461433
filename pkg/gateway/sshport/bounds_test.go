package sshport_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/gateway/sshport"
)

func TestAgentWithManyKeysFindsTheOneThatCounts(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	var signers []ssh.Signer
	for range 15 {
		signers = append(signers, newKey(t))
	}
	client, err := ssh.Dial("tcp", d.address, &ssh.ClientConfig{
		User: "box", Auth: []ssh.AuthMethod{ssh.PublicKeys(append(signers, d.ann)...)}, HostKeyCallback: ssh.FixedHostKey(d.host.PublicKey()),
	})
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	for range 10 {
		signers = append(signers, newKey(t))
	}
	client, err = ssh.Dial("tcp", d.address, &ssh.ClientConfig{
		User: "box", Auth: []ssh.AuthMethod{ssh.PublicKeys(append(signers, d.ann)...)}, HostKeyCallback: ssh.FixedHostKey(d.host.PublicKey()),
	})
	if err == nil {
		client.Close()
		t.Error("tries have no bound")
	}
}

func TestConnectionsThatDoNotLogInKeepTheirOwnHostNotOut(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.silent("127.0.0.1", 300)
	d.connected(d.ann, "box")
}

// slowKey is a key whose owner takes a while to sign.
type slowKey struct {
	ssh.Signer
	asked, may chan struct{}
}

func (k *slowKey) Sign(random io.Reader, data []byte) (*ssh.Signature, error) {
	close(k.asked)
	<-k.may
	return k.Signer.Sign(random, data)
}

func TestSilentConnectionsOfManyHostsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := &slowKey{d.ann.Signer, make(chan struct{}), make(chan struct{})}
	let := make(chan error, 1)
	go func() {
		client, err := d.connect(key, "box")
		if err == nil {
			client.Close()
		}
		let <- err
	}()
	<-key.asked
	for i := range 15 {
		d.silent(fmt.Sprintf("127.0.1.%d", i+1), 20)
	}
	close(key.may)
	if err := <-let; err != nil {
		t.Errorf("a client that signs slowly: %v", err)
	}
}

// silent makes connections from an address, which the port has accepted, and which say nothing.
func (d *door) silent(from string, count int) {
	d.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for range count {
		conn, err := dialer.Dial("tcp", d.address)
		if err != nil {
			d.Fatal(err)
		}
		d.Cleanup(func() { conn.Close() })
		_, _ = conn.Read(make([]byte, 1)) // of the port's version, unless the connection has to go
	}
}

func TestTenThousandChannelsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	client := d.connected(d.ann, "box")
	opened, refused := tenThousandChannels(client)
	if opened == 0 || opened > 128 || opened+refused != 10_000 {
		t.Errorf("%d were opened, and %d refused", opened, refused)
	}
	if other, err := d.connected(d.ann, "box").NewSession(); err == nil {
		t.Error("another connection of the tenant has more channels", other)
	}
	session, err := d.connected(d.bob, "box").NewSession()
	if err != nil {
		t.Fatalf("another tenant: %v", err)
	}
	session.Close()
	client.Close()
	await(t, "the channels come back", func() bool {
		session, err := d.connected(d.ann, "box").NewSession()
		return err == nil && session.Close() == nil
	})
}

// tenThousandChannels opens so many, and returns what becomes of them.
func tenThousandChannels(client *ssh.Client) (opened, refused int64) {
	var in, out atomic.Int64
	var tasks sync.WaitGroup
	for range 100 {
		tasks.Go(func() {
			for range 100 {
				_, requests, err := client.OpenChannel("session", nil)
				if err != nil {
					out.Add(1)
					continue
				}
				in.Add(1)
				go ssh.DiscardRequests(requests)
			}
		})
	}
	tasks.Wait()
	return in.Load(), out.Load()
}

func TestConnectionsOfATenantAreBoundedAndTakeNoPlaceOfOthers(t *testing.T) {
	t.Parallel()
	d := newDoorWith(t, func(p *sshport.Port) { p.Places(70) })
	var clients []*ssh.Client
	for range 80 {
		clients = append(clients, d.connected(d.ann, "box"))
	}
	other, err := d.connected(d.bob, "box").NewSession()
	if err != nil {
		t.Fatalf("another tenant: %v", err)
	}
	other.Close()
	in := 0
	for _, c := range clients {
		if s, err := c.NewSession(); err == nil {
			in++
			s.Close()
		} else if !strings.Contains(err.Error(), "the tenant has") && !strings.Contains(err.Error(), "EOF") {
			t.Errorf("a connection too many: %v", err)
		}
	}
	if in != 64 {
		t.Errorf("%d connections", in)
	}
}

func TestClientWithoutAPlaceIsToldWhy(t *testing.T) {
	t.Parallel()
	d := newDoorWith(t, func(p *sshport.Port) { p.Places(1) })
	first := d.connected(d.ann, "box")
	if _, err := first.NewSession(); err != nil { // a client that has one has its place
		t.Fatal(err)
	}
	if _, err := d.connected(d.bob, "box").NewSession(); err == nil || !strings.Contains(err.Error(), "the gateway has as many connections") {
		t.Errorf("a second client: %v", err)
	}
	first.Close()
	await(t, "the place comes back", func() bool {
		session, err := d.connected(d.bob, "box").NewSession()
		return err == nil && session.Close() == nil
	})
}

func TestClientThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	client := d.connected(d.ann, "box")
	channel, requests, err := client.OpenChannel("session", nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(requests)
	if ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"yes"})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	session, err := client.NewSession() // beside it, in the same connection
	if err != nil {
		t.Fatal(err)
	}
	if out, err := session.Output("echo still"); string(out) != "still\n" {
		t.Errorf("%q, %v", out, err)
	}
	client.Close()
	await(t, "it ends", func() bool {
		list, err := d.box.Processes(t.Context())
		for _, p := range list {
			if p.Script == "yes" && p.Status == nil {
				return false
			}
		}
		return err == nil
	})
}
