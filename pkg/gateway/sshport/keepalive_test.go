package sshport_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/gateway/sshport"
	"github.com/podagent/podagent/pkg/sshserver"
)

// login returns a client for box, and what it is asked.
func (d *door) login() (*ssh.Client, <-chan *ssh.Request) {
	d.Helper()
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		d.Fatal(err)
	}
	c, channels, requests, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{
		User: "box", Auth: []ssh.AuthMethod{ssh.PublicKeys(d.ann)}, HostKeyCallback: ssh.FixedHostKey(d.host.PublicKey()),
	})
	if err != nil {
		d.Fatal(err)
	}
	client := ssh.NewClient(c, channels, nil)
	d.Cleanup(func() { client.Close() })
	return client, requests
}

func TestASilentClientOfThePortIsEndedByKeepAlives(t *testing.T) {
	t.Parallel()
	d := newDoorWith(t, func(p *sshport.Port) {
		p.KeepAlive(sshserver.KeepAlive{Period: time.Millisecond, Patience: time.Second})
	})
	client, requests := d.login()
	left := make(chan error, 1)
	go func() { left <- client.Wait() }()
	<-requests // which it does not answer
	select {
	case <-left:
	case <-time.After(hung):
		t.Error("the server does not end")
	}
	await(t, "the end of its visit", func() bool { return d.port.In() == 0 })
}

// The client answers for longer than it may take for one answer.
func TestAQuietClientOfThePortThatAnswersStays(t *testing.T) {
	t.Parallel()
	const period, patience = 50 * time.Millisecond, 10 * time.Second
	d := newDoorWith(t, func(p *sshport.Port) { p.KeepAlive(sshserver.KeepAlive{Period: period, Patience: patience}) })
	client, requests := d.login()
	for range 2 * patience / period {
		select {
		case r, ok := <-requests:
			if !ok {
				t.Fatal("the server ended the connection")
			}
			if err := r.Reply(false, nil); err != nil {
				t.Fatal(err)
			}
		case <-time.After(hung):
			t.Fatal("the server does not ask")
		}
	}
	go ssh.DiscardRequests(requests)
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if out, err := s.Output("echo here"); err != nil || string(out) != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}
