package agent

import (
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// gatherer has small answers leave the sandbox together while many commands are being
// started. Each write of the agent costs the node, the API server and the client more
// processor time than a short command's answer is worth, and the commands need that time.
// So after a small write a connection pauses, and the longer the more commands are being
// started: their answers follow soon. Beside a few there is no pause, nor beside commands
// whose starts make no progress.
type gatherer struct {
	starting atomic.Int64 // the commands that are being started
	started  atomic.Int64 // those whose start has ended
	paused   atomic.Int64 // what started was at the last pause
}

// begin notes that a command is being started, until the caller calls end.
func (g *gatherer) begin() (end func()) {
	g.starting.Add(1)
	return func() {
		g.started.Add(1)
		g.starting.Add(-1)
	}
}

// pause waits a step for each gatherShare of the commands that are being started, unless they
// are few.
func (g *gatherer) pause() {
	if g.starting.Load() < gatherLeast {
		return
	}
	started := g.started.Load()
	if g.paused.Swap(started) == started {
		return // nothing has followed
	}
	many := func(step int64) bool { return g.starting.Load() >= max(gatherLeast, step*gatherShare) }
	for step, idle := int64(1), 0; step <= gatherSteps && idle < gatherIdle && many(step); step++ {
		time.Sleep(gatherStep)
		idle++
		if now := g.started.Load(); now != started {
			started, idle = now, 0
		}
	}
	g.paused.Store(started)
}

// credentials returns credentials whose connections gather.
func (g *gatherer) credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return gathering{c, g}
}

type gathering struct {
	credentials.TransportCredentials
	gatherer *gatherer
}

func (g gathering) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := g.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return &gatheringConn{secured, g.gatherer}, info, nil
}

func (g gathering) Clone() credentials.TransportCredentials {
	return gathering{g.TransportCredentials.Clone(), g.gatherer}
}

// gatheringConn is a connection that pauses after small writes.
type gatheringConn struct {
	net.Conn
	gatherer *gatherer
}

func (c *gatheringConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil && len(p) < gatherBytes {
		c.gatherer.pause()
	}
	return n, err
}
