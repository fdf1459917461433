package sshserver_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/sshserver"
)

func TestAClientThatNobodyServesIsToldWhyByWhatItStarts(t *testing.T) {
	p := newPlace(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	told := make(chan bool, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		client, channels, requests, err := p.server("").LetIn(t.Context(), conn)
		told <- err == nil && sshserver.RefuseClient(client, channels, requests, "no sandbox \"a\x1b[31m\",\n try another")
	}()
	client, err := ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(p.key.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const why = "no sandbox \"a?[31m\", try another"
	for _, end := range []string{"\n", "\r\n"} {
		s := open(t, client)
		var said bytes.Buffer
		s.Stderr = &said
		if end != "\n" {
			terminal(t, s, nil)
		}
		exit, ok := errors.AsType[*ssh.ExitError](s.Run("true"))
		if !ok || exit.ExitStatus() != 255 || said.String() != why+end {
			t.Errorf("%v, %q", exit, &said)
		}
	}
	_, err = client.Dial("tcp", "localhost:80")
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); !ok || refused.Message != why {
		t.Errorf("a port: %v", err)
	}
	client.Close()
	if !<-told {
		t.Error("the server takes the client for one that asked for nothing")
	}
}
