package object

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// smallPack is the size of packs that are put together if there are more than manySmall of them.
	smallPack = 1 << 20
	manySmall = 100
)

// total returns how many bytes the packs have.
func (p *packs) total() (n int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return 0, err
	}
	for _, k := range p.all {
		if !k.gone {
			n += k.size
		}
	}
	return n, nil
}

// sweep removes the packs without an object that is kept, and files that are no packs. Of packs that are half of such
// objects at least, it puts the others into new packs, as far as there is room for them.
func (p *packs) sweep(ctx context.Context, keep func(Hash) bool) error {
	kept, err := p.keep(keep)
	if err == nil {
		err = p.removeOthers()
	}
	if err != nil {
		return err
	}
	return p.rewrite(ctx, kept)
}

// rewrite puts the objects of wasteful packs into new packs, as far as there is room for them.
func (p *packs) rewrite(ctx context.Context, kept []contents) (err error) {
	m := mover{packs: p, from: map[Hash]place{}}
	for _, i := range p.wasteful(kept) {
		if err = ctx.Err(); err == nil {
			err = m.move(i, kept[i].hashes)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = m.finish()
	}
	if err != nil {
		m.undo()
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil
	}
	return err
}

// tidy puts small packs together if there are many, since each checkpoint makes one, and each has to be opened.
func (p *packs) tidy(ctx context.Context) error {
	if p.small() <= manySmall {
		return nil
	}
	kept, err := p.keep(func(Hash) bool { return true })
	if err != nil {
		return err
	}
	return p.rewrite(ctx, kept)
}

// small returns how many packs are small.
func (p *packs) small() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.all {
		if k.isSmall() {
			n++
		}
	}
	return n
}

func (k *pack) isSmall() bool { return k.size < smallPack && k.name != "" && !k.gone }

// contents are the objects of a pack that are kept.
type contents struct {
	hashes []Hash
	size   int64
}

// keep forgets the objects that are not kept, and returns those of each pack that are.
func (p *packs) keep(keep func(Hash) bool) ([]contents, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return nil, err
	}
	kept := make([]contents, len(p.all))
	for h, at := range p.places {
		if !keep(h) {
			delete(p.places, h)
			continue
		}
		k := &kept[at.pack]
		k.hashes = append(k.hashes, h)
		k.size += int64(at.length) + int64(packRecord)
	}
	return kept, nil
}

// removeOthers removes what is among the packs, and is none.
func (p *packs) removeOthers() error {
	names, err := NamesIn(p.dir, maxPacks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	known := make(map[string]bool, len(p.all))
	for _, k := range p.all {
		known[k.name] = true
	}
	for _, name := range names {
		if !known[name] {
			err = errors.Join(err, RemoveTree(filepath.Join(p.dir, name)))
		}
	}
	return err
}

// wasteful returns the packs that are not to stay: first those without an object that is kept, and of the others those
// that are mostly of such objects, or small ones among many.
func (p *packs) wasteful(kept []contents) (list []int) {
	many := p.small() > manySmall
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range p.all[:len(kept)] {
		if k.name != "" && !k.gone && (kept[i].size <= k.size/2 || many && k.isSmall()) {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(min(kept[a].size, 1), min(kept[b].size, 1)) })
	return list
}

// A mover puts objects into other packs.
type mover struct {
	*packs
	from  map[Hash]place // where they were
	empty []int          // packs whose objects have been moved
	size  int64          // of these objects
	buf   []byte
}

// move moves objects of a pack.
func (m *mover) move(number int, kept []Hash) error {
	for _, h := range kept {
		at, ok, err := m.find(h)
		if err != nil || !ok {
			return err
		}
		m.buf, err = m.read(at, m.buf)
		if errors.Is(err, ErrCorrupt) {
			continue // it goes with its pack
		}
		m.from[h] = at
		if err == nil {
			_, err = m.add(h, at.whole, func(b []byte) ([]byte, Encoding) { return append(b, m.buf...), at.how })
		}
		if err != nil {
			return err
		}
		m.size += int64(at.length)
	}
	if m.empty = append(m.empty, number); m.size > 0 && m.size < m.full {
		return nil
	}
	return m.finish()
}

// finish removes the packs whose objects are in others now.
func (m *mover) finish() error {
	err := m.sealAll()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, number := range m.empty {
		k := m.all[number]
		if err == nil {
			err = RemoveAny(filepath.Join(m.dir, k.name))
			k.gone = true
		}
	}
	if err == nil {
		m.empty, m.size = nil, 0
		clear(m.from)
	}
	return err
}

// undo has the objects where they were, but for those that are in their new places.
func (m *mover) undo() {
	m.abandon()
	m.mu.Lock()
	defer m.mu.Unlock()
	for h, at := range m.from {
		if _, ok := m.places[h]; !ok {
			m.places[h] = at
		}
	}
}
