package egress

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// FarEnd is somebody outside who carries connections, or stands by to do so. Its fields are
// guarded by the proxy's lock. They are no queue: a far end that takes no news costs nothing.
type FarEnd struct {
	proxy      *Proxy
	generation uint64
	order      uint64 // among all far ends
	told       *News  // the last news that was no connection; nil if there is one to be told
	announced  uint64 // the last connection that was announced to it
	news       chan struct{}
}

// News is what a far end must know: the first that is set of its fields.
type News struct {
	Connection uint64 // a connection that waits to be carried
	Serving    bool   // the far end serves from now on
	Standby    uint64 // otherwise, another one does, of this generation
}

// Join adds a far end. It serves if its generation is the highest, and among equals it is the
// first.
func (p *Proxy) Join(generation uint64) *FarEnd {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined++
	f := &FarEnd{proxy: p, generation: generation, order: p.joined, news: make(chan struct{}, 1)}
	p.farEnds = append(p.farEnds, f)
	slices.SortFunc(p.farEnds, func(a, b *FarEnd) int {
		return cmp.Or(cmp.Compare(b.generation, a.generation), cmp.Compare(a.order, b.order))
	})
	p.stir()
	return f
}

// Leave takes the far end away. What it carries is its caller's to end.
func (f *FarEnd) Leave() {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.proxy.farEnds = slices.DeleteFunc(f.proxy.farEnds, func(other *FarEnd) bool { return other == f })
	f.proxy.stir()
}

// stir makes all far ends look for news. The caller holds the lock.
func (p *Proxy) stir() {
	for _, f := range p.farEnds {
		f.stir()
	}
}

func (f *FarEnd) stir() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// Served reports whether a far end serves.
func (p *Proxy) Served() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.farEnds) > 0
}

// Next waits for news.
func (f *FarEnd) Next(ctx context.Context) (News, error) {
	for {
		if n, ok := f.next(); ok {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return News{}, ctx.Err()
		case <-f.news:
		}
	}
}

// next returns what the far end has not been told.
func (f *FarEnd) next() (News, bool) {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	state := News{Serving: true}
	if first := f.proxy.farEnds[0]; first != f {
		state = News{Standby: first.generation}
	}
	if f.told == nil || *f.told != state {
		f.told, f.announced = &state, 0
		return state, true
	}
	if !state.Serving {
		return News{}, false
	}
	return f.nextConnection()
}

// nextConnection returns the oldest connection that was not announced to the far end.
func (f *FarEnd) nextConnection() (News, bool) {
	for _, id := range slices.Sorted(maps.Keys(f.proxy.waiting)) {
		if id > f.announced {
			f.announced = id
			return News{Connection: id}, true
		}
	}
	return News{}, false
}
