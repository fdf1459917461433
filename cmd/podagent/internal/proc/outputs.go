package proc

import (
	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// outputs are both outputs of a process: their journals, and the pumps that fill them.
type outputs struct {
	*journal.Output
	pumps [2]*pump
}

func newOutputs(budget *journal.Budget, lim *limits, std *stdio, screen *screen) *outputs {
	var observe func(int64, []byte)
	if screen != nil {
		observe = screen.observe
	}
	o := &outputs{Output: budget.NewOutput(observe)}
	for i, source := range std.outputs {
		o.pumps[i] = &pump{
			source:    source,
			journal:   o.Stream(i),
			chunks:    budget.Chunks(),
			drainTime: lim.drain,
			complete:  make(chan struct{}),
		}
	}
	return o
}

// sizes are the total numbers of bytes of both outputs, and whether a descendant still
// held one open when it was complete.
func (o *outputs) sizes() (stdout, stderr int64, open bool) {
	written := o.State().Written
	return written[0], written[1], o.pumps[0].wasOpen() || o.pumps[1].wasOpen()
}
