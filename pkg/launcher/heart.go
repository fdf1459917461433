package launcher

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// heart sends the heartbeats of all sandboxes that a launcher has open. A Lease of its own says
// every interval which pods are needed, in one call for thousands. The pods themselves say so
// more rarely: for reapers of versions that do not look at Leases, where the Lease cannot be
// written, when a sandbox is closed, and after a pause in which the Lease may have become so old
// that a reaper is deleting pods right now. A reaper deletes no pod that has changed.
type heart struct {
	*cluster

	mu      sync.Mutex
	pods    map[*openPod]*pulse // those that are needed
	beating *beating            // nil if there are none
	away    bool                // the API server did not answer the latest heartbeat
}

// pulse is when a pod's heartbeats were, and are due.
type pulse struct {
	interval time.Duration
	part     int       // the part of the Lease that names the pod: it stays, so that each part always has it
	said     time.Time // when the pod itself last said that it is needed
	leased   time.Time // when the Lease last said so
	owing    bool      // the pod has to say so, whatever the Lease says
	saying   bool      // it is about to
}

// beating sends heartbeats until it is stopped.
type beating struct {
	*heart
	lease   *beatLease
	changed chan struct{} // has a value if there are other pods
	stop    context.CancelFunc
	ended   chan struct{}
	tried   time.Time     // when the latest heartbeat began
	slots   chan struct{} // has a value for each pod that speaks
	saying  sync.WaitGroup
}

func newHeart(c *cluster) *heart { return &heart{cluster: c, pods: map[*openPod]*pulse{}} }

// wallTime is a time without its monotonic reading, which stops while the machine sleeps.
func wallTime() time.Time { return time.Now().Round(0) }

// add begins the heartbeats of a pod, which its launch has marked as needed.
func (h *heart) add(o *openPod, interval time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := wallTime()
	h.pods[o] = &pulse{interval: interval, part: h.room(), said: now, leased: now}
	if h.beating == nil {
		ctx, stop := context.WithCancel(h.logged(context.Background()))
		h.beating = &beating{
			heart: h, lease: newBeatLease(h.cluster), changed: make(chan struct{}, 1),
			stop: stop, ended: make(chan struct{}), tried: time.Now(), slots: make(chan struct{}, sayAtOnce),
		}
		go h.beating.run(ctx)
	}
	select {
	case h.beating.changed <- struct{}{}:
	default:
	}
}

// room returns the first part of the Lease that has room for another pod.
func (h *heart) room() (part int) {
	sizes := map[int]int{}
	for _, p := range h.pods {
		sizes[p.part]++
	}
	for sizes[part] >= maxBeats {
		part++
	}
	return part
}

// end ends the heartbeats of a pod. The Lease no longer speaks for it, so it says itself when it
// was last needed, unless it has just done so.
func (h *heart) end(ctx context.Context, o *openPod) {
	if timeout := h.lastWord(o); timeout > 0 {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		h.say(ctx, o)
		cancel()
	}
	h.forget(o)
}

// lastWord returns how long a pod may take to say once more that it is needed; 0 if it need not.
func (h *heart) lastWord(o *openPod) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch p := h.pods[o]; {
	case p == nil || wallTime().Sub(p.said) < p.interval && !p.leased.After(p.said):
		return 0
	case h.away:
		return lateQuery
	}
	return queryTimeout
}

// forget ends the heartbeats of a pod at once.
func (h *heart) forget(o *openPod) {
	if b := h.remove(o); b != nil {
		b.stop()
		<-b.ended
	}
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

// run beats in every interval.
func (b *beating) run(ctx context.Context) {
	defer close(b.ended)
	for b.await(ctx) {
		b.beat(ctx)
	}
	b.saying.Wait()
	timeout := queryTimeout
	if b.isAway() {
		timeout = lateQuery
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := b.lease.write(ctx, nil, wallTime()); err != nil {
		b.log.Warn("cannot remove the Lease of heartbeats", "lease", b.lease.name, "error", err)
	}
}

func (h *heart) isAway() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.away
}

// await waits for the next heartbeat, and returns false if there is none.
func (b *beating) await(ctx context.Context) bool {
	for {
		next := time.NewTimer(time.Until(b.tried.Add(b.shortest())))
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

// shortest returns the shortest interval of the pods.
func (h *heart) shortest() (shortest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pods {
		if shortest == 0 || p.interval < shortest {
			shortest = p.interval
		}
	}
	return cmp.Or(shortest, DefaultHeartbeat)
}

// beat says in the Lease that all pods are needed, and lets those say so themselves that have to.
func (b *beating) beat(ctx context.Context) {
	b.tried = time.Now()
	now := wallTime()
	parts, named := b.parts()
	err := b.lease.write(ctx, parts, now)
	if err != nil && ctx.Err() == nil {
		b.log.Warn("cannot write the Lease of heartbeats", "lease", b.lease.name, "error", err)
	}
	for _, o := range b.wrote(named, now, err) {
		b.saying.Go(func() { b.sayInTurn(ctx, o) })
	}
}

// parts returns the UIDs of the pods by the parts of the Lease, and the pods.
func (h *heart) parts() (parts map[int][]string, named []*openPod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	parts = map[int][]string{}
	for o, p := range h.pods {
		parts[p.part] = append(parts[p.part], string(o.pod.UID))
		named = append(named, o)
	}
	return parts, named
}

// wrote notes a heartbeat by the Lease, or why there was none, and returns the pods that have to
// speak now.
func (h *heart) wrote(named []*openPod, now time.Time, err error) (speak []*openPod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = err != nil && !isLasting(err)
	for _, o := range named {
		p := h.pods[o]
		if p == nil || h.away {
			continue
		}
		if err == nil {
			p.owing = p.owing || now.Sub(latest(p.said, p.leased)) > missedBeats*p.interval
			p.leased = now
		}
		due := p.interval
		if err == nil {
			due = max(due, min(saysEvery*p.interval, saysAfter))
		}
		if (p.owing || now.Sub(p.said) >= due) && !p.saying {
			p.saying = true
			speak = append(speak, o)
		}
	}
	return speak
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// isLasting reports whether an error of a Lease says that it cannot be written, now or later: a
// permission is missing, or somebody keeps changing it. After any other, the next heartbeat
// tries again.
func isLasting(err error) bool {
	return isRefusal(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// sayInTurn lets a pod say that it is needed, if it still is, with a few others.
func (b *beating) sayInTurn(ctx context.Context, o *openPod) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return
	}
	b.mu.Lock()
	needed := b.pods[o] != nil
	b.mu.Unlock()
	if needed {
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		b.say(ctx, o)
	}
}

// say lets a pod say that it is needed.
func (h *heart) say(ctx context.Context, o *openPod) {
	now := wallTime()
	err := o.beat(ctx, o.pod)
	gone := errors.Is(err, ErrGone)
	switch {
	case gone:
		o.kill(err)
	case err != nil && !errors.Is(ctx.Err(), context.Canceled): // the API server may come back
		o.log.Warn("cannot refresh the heartbeat", "sandbox", o.pod.Annotations[podmeta.AnnotationID], "pod", o.pod.Name, "error", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pods[o]
	if p == nil {
		return
	}
	p.saying = false
	switch {
	case gone:
		delete(h.pods, o)
	case err == nil:
		p.said, p.owing = now, false
	}
}
