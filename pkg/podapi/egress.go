package podapi

import (
	"context"
	"net"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Carry opens a connection that the agent announced: see package farend.
func (c *Client) Carry(ctx context.Context, id uint64) (net.Conn, error) {
	conn, err := c.begin(ctx, c.egress.Carry, &pb.DialOpen{Connection: id})
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// begin opens a connection, and starts to carry its bytes. ctx is for the opening alone.
func (c *Client) begin(ctx context.Context, carry carrier, open *pb.DialOpen) (*portConn, error) {
	life, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, hangUp)
	conn, err := c.openConn(life, carry, open)
	if stop() && err == nil {
		conn.life, conn.hangUp = life, hangUp
		conn.start()
		return conn, nil
	}
	hangUp()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, err
}
