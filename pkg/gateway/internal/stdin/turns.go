package stdin

import (
	"context"
	"sync"

	"github.com/podagent/podagent/pkg/podapi"
)

// turns let those who want the same go one after the other.
type turns struct {
	mu  sync.Mutex
	all map[turnKey]*turn
}

// turnKey is the input of a process.
type turnKey struct {
	client *podapi.Client
	execID string
}

// turn is one that somebody has, and others wait for.
type turn struct {
	free chan struct{} // has a value if nobody has it
	want int           // who has it, or waits
}

// take waits for a turn. It is given back once.
func (t *turns) take(ctx context.Context, key turnKey) (giveBack func(), err error) {
	t.mu.Lock()
	if t.all == nil {
		t.all = map[turnKey]*turn{}
	}
	mine := t.all[key]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		t.all[key] = mine
	}
	mine.want++
	t.mu.Unlock()
	select {
	case <-mine.free:
		return func() {
			mine.free <- struct{}{}
			t.leave(key, mine)
		}, nil
	case <-ctx.Done():
		t.leave(key, mine)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(key turnKey, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.want--; mine.want == 0 {
		delete(t.all, key)
	}
}
