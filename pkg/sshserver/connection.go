package sshserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"
)

// connection is what one client has with the server.
type connection struct {
	server       *Server
	client       *ssh.ServerConn
	spools       atomic.Int64 // how many files are changed in place
	memory, disk room         // what is kept for files that are written
	ahead        room         // and for those that are read

	mu       sync.Mutex
	channels int  // how many are open
	ends     bool // there are to be no more
	// notes are the reasons of refusals that SSH has no place for. The next command's standard
	// error gets them. Each is there once.
	notes []string
	noted map[string]bool
}

// answer answers the requests that belong to no channel.
func (c *connection) answer(requests <-chan *ssh.Request) {
	for r := range requests {
		switch r.Type {
		case "tcpip-forward", "streamlocal-forward@openssh.com":
			c.note("-R is refused: nothing in the sandbox can call this machine")
		}
		_ = r.Reply(false, nil) // also to keepalive@openssh.com, where any answer will do
	}
}

// note keeps the reason of a refusal for the next command, and logs it.
func (c *connection) note(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted[why] {
		return
	}
	if c.noted == nil {
		c.noted = map[string]bool{}
	}
	c.noted[why] = true
	c.notes = append(c.notes, why)
	c.server.log().Info("refused", "why", why)
}

// takeNotes returns the reasons that nobody was told yet.
func (c *connection) takeNotes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	notes := c.notes
	c.notes = nil
	return notes
}

// KeepAlive says when a client is asked whether it is there, since a connection that was cut may look like one
// on which nothing happens.
type KeepAlive struct {
	// Period is how often that is; zero is 30 seconds.
	Period time.Duration
	// Patience is how long the client may take to answer; zero is two minutes.
	Patience time.Duration
}

// ErrSilent says that a client did not answer in time, and that its connection was ended for that.
var ErrSilent = errors.New("the client does not answer any more")

// keepAlive asks the client from time to time whether it is still there, and calls silent if it does not
// answer. It may block until the connection ends.
func (c *connection) keepAlive(ctx context.Context, silent func()) {
	k := c.server.KeepAlive
	tick := time.NewTicker(cmp.Or(k.Period, keepAlivePeriod))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		late := time.AfterFunc(cmp.Or(k.Patience, keepAliveTime), silent)
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			return
		}
	}
}

// open serves a channel that the client opens, in a goroutine of its own.
func (c *connection) open(ctx context.Context, opened ssh.NewChannel, tasks *sync.WaitGroup) {
	leave, err := c.enter()
	if err != nil {
		refuse(opened, ssh.ResourceShortage, err.Error())
		return
	}
	serve := c.serverOf(opened.ChannelType())
	tasks.Go(func() {
		defer leave()
		serve(ctx, opened)
	})
}

// enter counts a channel until leave is called.
func (c *connection) enter() (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ends || c.server.Closing != nil && c.server.Closing.Err() != nil: // closing may not have run yet
		return nil, errors.New("this server ends: connect again")
	case c.channels >= maxChannels:
		return nil, fmt.Errorf("a connection has at most %d channels", maxChannels)
	}
	done := func() {}
	if c.server.Open != nil {
		if done, err = c.server.Open(); err != nil {
			return nil, err
		}
	}
	c.channels++
	return func() {
		done()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.channels--
		c.endIfUnused()
	}, nil
}

// closing has the connection end when it has no channels.
func (c *connection) closing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = true
	c.endIfUnused()
}

// endIfUnused is called with mu.
func (c *connection) endIfUnused() {
	if c.ends && c.channels == 0 {
		go c.client.Close() // which may wait for a client that reads nothing
	}
}

func (c *connection) serverOf(kind string) func(context.Context, ssh.NewChannel) {
	switch kind {
	case "session":
		return c.session
	case "direct-tcpip":
		return c.forward
	}
	return func(_ context.Context, opened ssh.NewChannel) {
		refuse(opened, ssh.UnknownChannelType, "only sessions and connections to TCP ports of the sandbox can be opened")
	}
}

// refuse says why a channel is not opened.
func refuse(opened ssh.NewChannel, reason ssh.RejectionReason, why string) {
	_ = opened.Reject(reason, plain(why)) // it fails only if the client is gone
}

// plain returns a text without what could control a terminal, and of bounded length: it may
// have words of the sandbox in it.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}
