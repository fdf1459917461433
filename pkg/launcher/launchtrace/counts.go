package launchtrace

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Counts counts the launches that succeeded. Its methods may be called concurrently, and the
// zero value is ready to use.
type Counts struct {
	mu     sync.Mutex
	starts map[Start]Count
	misses int
}

// Count is how many launches there were of a kind, and how long they took in all.
type Count struct {
	Launches int
	Time     time.Duration
}

// Counting returns a context for one launch, which begins now.
func (c *Counts) Counting(ctx context.Context) context.Context {
	begun, got := time.Now(), Pod{}
	return WithTrace(ctx, &Trace{
		GotPod: func(p Pod) { got = p },
		Ready:  func() { c.add(got, time.Since(begun)) },
	})
}

func (c *Counts) add(p Pod, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.starts == nil {
		c.starts = map[Start]Count{}
	}
	count := c.starts[p.Start]
	c.starts[p.Start] = Count{count.Launches + 1, count.Time + took}
	if p.Why != "" {
		c.misses++
	}
}

// Starts returns the launches so far, by how they got their pods.
func (c *Counts) Starts() map[Start]Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.starts)
}

// Misses returns how many launches named a pool and found no pod in it to take.
func (c *Counts) Misses() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.misses
}
