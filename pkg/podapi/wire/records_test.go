package wire

import (
	"crypto/ed25519"
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// writeSizes is a connection that records the sizes of its writes.
type writeSizes struct {
	net.Conn
	sizes []int
}

func (c *writeSizes) Write(p []byte) (int, error) {
	c.sizes = append(c.sizes, len(p))
	return c.Conn.Write(p)
}

// A port-forward has a cost per write.
func TestRecordsOfOneWriteLeaveTogether(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := AgentTLS("", NewAccepted([]AuthorizedKey{NewAuthorizedKey(public)}))
	if err != nil {
		t.Fatal(err)
	}
	config, err := ClientTLS(private, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	go io.Copy(io.Discard, tls.Server(theirs, agent))
	sizes := &writeSizes{Conn: ours}
	conn, _, err := ClientConn(t.Context(), sizes, config)
	if err != nil {
		t.Fatal(err)
	}
	sizes.sizes = nil
	for range 8 { // the first records of a connection are small
		if _, err := conn.Write(make([]byte, ClientWriteBuffer)); err != nil {
			t.Fatal(err)
		}
	}
	if got, frame := sizes.sizes[len(sizes.sizes)-1], 32<<10-16; len(sizes.sizes) != 8 || got != frame {
		t.Errorf("8 writes left as %d, the last of %d bytes, not %d", len(sizes.sizes), got, frame)
	}
}
