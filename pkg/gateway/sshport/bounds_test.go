package sshport_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
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

func TestFloodsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	t.Run("connections that do not log in", func(t *testing.T) {
		for range 300 {
			conn, err := net.Dial("tcp", d.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		d.connected(d.ann, "box")
	})
	t.Run("10,000 channels", func(t *testing.T) {
		client := d.connected(d.ann, "box")
		var opened, refused int
		var mu sync.Mutex
		var tasks sync.WaitGroup
		for range 100 {
			tasks.Go(func() {
				for range 100 {
					channel, requests, err := client.OpenChannel("session", nil)
					mu.Lock()
					if err == nil {
						opened++
						go ssh.DiscardRequests(requests)
						_ = channel
					} else {
						refused++
					}
					mu.Unlock()
				}
			})
		}
		tasks.Wait()
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
	})
	t.Run("connections of a tenant", func(t *testing.T) {
		var clients []*ssh.Client
		for range 80 {
			clients = append(clients, d.connected(d.ann, "box"))
		}
		in := 0
		for _, c := range clients {
			if s, err := c.NewSession(); err == nil {
				in++
				s.Close()
			} else if !strings.Contains(err.Error(), "the tenant has") && !strings.Contains(err.Error(), "EOF") {
				t.Errorf("a connection too many: %v", err)
			}
		}
		if in == 0 || in > 64 {
			t.Errorf("%d connections", in)
		}
		for _, c := range clients {
			c.Close()
		}
	})
	t.Run("a client that does not read", func(t *testing.T) {
		var client *ssh.Client
		var channel ssh.Channel
		var requests <-chan *ssh.Request
		await(t, "the connections before have ended", func() (ok bool) {
			var err error
			client = d.connected(d.ann, "box")
			channel, requests, err = client.OpenChannel("session", nil)
			return err == nil
		})
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
	})
}
