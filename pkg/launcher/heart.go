package launcher

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// heart sends the heartbeats of all sandboxes that a launcher has open. A Lease of its own says
// every interval which pods are needed, in one call for thousands. The pods themselves say so
// more rarely: for reapers of versions that do not look at Leases, where the Lease cannot be
// written, when a sandbox is closed, and after a pause in which the Lease may have become so old
// that a reaper is deleting pods right now. It deletes no pod that has changed.
type heart struct {
	*cluster

	mu sync.Mutex
	// pods are those that are needed.
	pods    map[*openPod]*pulse
	beating *beating // nil if there are none
	away    bool     // the API server did not answer the latest heartbeat
}

// pulse is when a pod's heartbeats are due.
type pulse struct {
	interval time.Duration
	said     time.Time // when the pod itself last said that it is needed
}

// beating sends heartbeats until it is stopped.
type beating struct {
	*heart
	lease   *beatLease
	changed chan struct{} // has a value if there are other pods
	stop    context.CancelFunc
	ended   chan struct{}
	tried   time.Time // when the latest heartbeat began
	said    time.Time // when all pods were last said to be needed
}

func newHeart(c *cluster) *heart { return &heart{cluster: c, pods: map[*openPod]*pulse{}} }

// wallTime is a time without its monotonic reading, which stops while the machine sleeps.
func wallTime() time.Time { return time.Now().Round(0) }

// add begins the heartbeats of a pod, which its launch has marked as needed.
func (h *heart) add(o *openPod, interval time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pods[o] = &pulse{interval, wallTime()}
	if h.beating == nil {
		ctx, stop := context.WithCancel(h.logged(context.Background()))
		h.beating = &beating{
			heart: h, lease: newBeatLease(h.cluster), changed: make(chan struct{}, 1),
			stop: stop, ended: make(chan struct{}), tried: time.Now(), said: wallTime(),
		}
		go h.beating.run(ctx)
	}
	select {
	case h.beating.changed <- struct{}{}:
	default:
	}
}

// end ends the heartbeats of a pod. The Lease no longer speaks for it, so it says itself when it
// was last needed, unless it has just done so, or nobody would hear it.
func (h *heart) end(ctx context.Context, o *openPod) {
	if h.owesWord(o) {
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
		h.say(ctx, o)
		cancel()
	}
	h.forget(o)
}

// forget ends the heartbeats of a pod at once.
func (h *heart) forget(o *openPod) {
	if b := h.remove(o); b != nil {
		b.stop()
		<-b.ended
	}
}

// owesWord reports whether a pod that is needed has not said so for an interval.
func (h *heart) owesWord(o *openPod) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pods[o]
	return p != nil && !h.away && wallTime().Sub(p.said) >= p.interval
}

// remove forgets a pod. After the last one, it returns what is to be stopped.
func (h *heart) remove(o *openPod) *beating {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pods, o)
	if len(h.pods) > 0 {
		return nil
	}
	b := h.beating
	h.beating = nil
	return b
}

// due returns the UIDs of all pods, the shortest of their intervals, and the pods that are to say
// themselves that they are needed: all, or those that have not done so for many intervals.
func (h *heart) due(all bool, now time.Time) (uids []string, shortest time.Duration, pods []*openPod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o, p := range h.pods {
		uids = append(uids, string(o.pod.UID))
		if shortest == 0 || p.interval < shortest {
			shortest = p.interval
		}
		if all || now.Sub(p.said) >= saysEvery*p.interval {
			pods = append(pods, o)
		}
	}
	return uids, shortest, pods
}

// say lets a pod say that it is needed.
func (h *heart) say(ctx context.Context, o *openPod) {
	now := wallTime()
	err := o.beat(ctx, o.pod)
	gone := errors.Is(err, ErrGone)
	switch {
	case gone:
		o.kill(err)
	case err != nil && ctx.Err() == nil: // the API server may come back
		o.log.Warn("cannot refresh the heartbeat", "sandbox", o.pod.Annotations[podmeta.AnnotationID], "pod", o.pod.Name, "error", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch p := h.pods[o]; {
	case gone:
		delete(h.pods, o)
	case err == nil && p != nil:
		p.said = now
	}
}

// run beats in every interval.
func (b *beating) run(ctx context.Context) {
	defer close(b.ended)
	for b.await(ctx) {
		b.beat(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	if err := b.lease.write(ctx, nil, wallTime()); err != nil {
		b.log.Warn("cannot remove the Lease of heartbeats", "lease", b.lease.name, "error", err)
	}
}

// await waits for the next heartbeat, and returns false if there is none.
func (b *beating) await(ctx context.Context) bool {
	for {
		_, interval, _ := b.due(false, wallTime())
		next := time.NewTimer(time.Until(b.tried.Add(cmp.Or(interval, DefaultHeartbeat))))
		select {
		case <-ctx.Done():
			next.Stop()
			return false
		case <-b.changed: // perhaps the interval is shorter now
			next.Stop()
		case <-next.C:
			return true
		}
	}
}

// beat says that all pods are needed: in the Lease, and in the pods where that is due.
func (b *beating) beat(ctx context.Context) {
	b.tried = time.Now()
	now := wallTime()
	uids, interval, _ := b.due(false, now)
	err := b.lease.write(ctx, uids, now)
	if err != nil && ctx.Err() == nil {
		b.log.Warn("cannot write the Lease of heartbeats", "lease", b.lease.name, "error", err)
	}
	away := err != nil && !isAnswer(err)
	b.mu.Lock()
	b.away = away
	b.mu.Unlock()
	if away {
		return
	}
	_, _, pods := b.due(err != nil || now.Sub(b.said) > missedBeats*interval, now)
	b.said = now
	for _, o := range pods {
		if ctx.Err() != nil {
			return
		}
		b.say(ctx, o)
	}
}
