package podapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// agentLife is one start of an agent, as a client knows it.
type agentLife struct {
	bootID string
	minor  int
}

// speaks returns the present start of the agent, if it speaks at least this minor
// version of the protocol. It asks the agent only the first time.
func (c *Client) speaks(ctx context.Context, minor int) (*agentLife, error) {
	life := c.life.Load()
	if life == nil {
		info, err := c.info(ctx, true)
		if errors.Is(err, ErrUnavailable) {
			info, err = c.info(ctx, true) // over another connection, if one broke
		}
		if err != nil {
			return nil, err
		}
		life = c.meet(info)
	}
	if life.minor < minor {
		return nil, fmt.Errorf("%w: the agent speaks protocol %d.%d, which cannot do this: update the agent's image",
			ErrVersion, wire.ProtocolMajor, life.minor)
	}
	return life, nil
}

// meet notes what an agent says about itself.
func (c *Client) meet(info Info) *agentLife {
	life := &agentLife{bootID: info.BootID, minor: info.ProtocolMinor}
	c.life.Store(life)
	return life
}

// forgetLife notes that the agent has restarted.
func (c *Client) forgetLife(life *agentLife) { c.life.CompareAndSwap(life, nil) }

// whyLost asks the platform what became of the agent; nil if it does not know.
func (c *Client) whyLost(ctx context.Context) error {
	if c.lost == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lostTimeout)
	defer cancel()
	return c.lost(ctx)
}
