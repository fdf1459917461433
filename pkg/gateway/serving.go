package gateway

import (
	"context"
)

// Drain says that the gateway will end soon: Ready fails from now on, and answers close their
// connections, so that callers connect anew. All requests are served as before.
func (g *Gateway) Drain() {
	g.streams.drain()
	g.waysOut.drain()
}

// Shutdown ends the gateway once all requests are answered, or ctx has ended. It tells those who
// follow something, such as a terminal, a watch or a command's output, to go on with another
// gateway. When ctx ends, it ends the requests that are left: they have an answer that says so,
// unless it has begun already, and commands run on. It returns two seconds after that at the latest,
// if by then the Leader has returned, which is told at once. It does not keep new requests away: an
// HTTP server that shuts down at the same time does.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.endSweep()
	g.waysOut.drain()
	g.streams.tell()
	g.streams.wait(ctx)
	g.waysOut.wait(ctx)
	g.streams.end() // also those that were told: they have had as long
	return g.Close()
}

// Close ends the gateway at once: it is Shutdown without patience for requests that are not told to
// go on elsewhere. The sandboxes stay, and so do their processes.
func (g *Gateway) Close() error {
	g.streams.finish()
	last, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	g.streams.wait(last) // observers learn how requests ended whose connections were taken over
	g.mcp.close()
	g.end()
	g.sweeper.Wait()
	g.calls.close()
	g.waysOut.close()
	return g.held.close()
}
