package sshserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/internal/halves"
)

// directTCPIP is what opens a connection to a port (RFC 4254, 7.2).
type directTCPIP struct {
	Host       string
	Port       uint32
	OriginHost string
	OriginPort uint32
}

// parsePort returns the sandbox's port that a client wants.
func parsePort(data []byte) (int, error) {
	var d directTCPIP
	switch err := ssh.Unmarshal(data, &d); {
	case err != nil:
		return 0, err
	case !isSandbox(d.Host):
		return 0, fmt.Errorf("only ports of the sandbox itself can be reached: give localhost instead of %q", d.Host)
	case d.Port == 0 || d.Port > 65535:
		return 0, fmt.Errorf("%d is not a port", d.Port)
	}
	return int(d.Port), nil
}

// isSandbox reports whether a host's name means the sandbox itself.
func isSandbox(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	return host == "localhost"
}

// forward joins a channel with a connection to a port of the sandbox.
func (c *connection) forward(ctx context.Context, opened ssh.NewChannel) {
	port, err := parsePort(opened.ExtraData())
	if c.server.NoPorts {
		err = errors.New("this key opens no ports")
	}
	if err != nil {
		refuse(opened, ssh.Prohibited, err.Error())
		return
	}
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := c.server.Sandbox.Dial(dialing, port)
	if err != nil {
		refuse(opened, ssh.ConnectionFailed, err.Error())
		return
	}
	channel, requests, err := opened.Accept()
	if err != nil {
		conn.Close()
		return
	}
	gone := context.AfterFunc(ctx, func() { halves.Reset(conn) })
	defer gone()
	join(channel, requests, conn)
}

// join carries bytes, ends and resets both ways, until both directions or the channel have ended.
func join(channel ssh.Channel, requests <-chan *ssh.Request, conn net.Conn) {
	var tasks sync.WaitGroup
	sent := make(chan struct{}) // all that the client sent
	tasks.Go(func() {
		defer close(sent)
		if _, err := io.Copy(conn, channel); err != nil {
			channel.Close()
			return
		}
		_ = halves.CloseWrite(conn) // it fails if the connection has ended
	})
	tasks.Go(func() {
		ssh.DiscardRequests(requests) // until the client has closed the channel
		<-sent
		conn.Close()
	})
	if _, err := io.Copy(channel, conn); err != nil {
		halves.Reset(conn)
		channel.Close()
	}
	_ = channel.CloseWrite() // it fails if the channel is closed
	<-sent
	channel.Close()
	tasks.Wait()
}
