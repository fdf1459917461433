package object

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
)

// Unverified objects are apart from all others. None of them counts as stored, and each is read only where the store has no
// other one of its hash, as all objects with a comparison. So whatever somebody sends, it takes the place of nothing.

// PutUnverified keeps content of up to WholeSize as it was sent, without comparing it with its hash: whoever reads it does that. It
// is an object like others only once SettleUnverified is called.
func (o *Store) PutUnverified(h Hash, text []byte, how Encoding) error {
	if size, ok := decodedSize(text, how); !ok || size > WholeSize {
		return Damaged(h)
	}
	return o.add(&o.unverified, h, false, text, how)
}

// HasUnverified reports whether there is an unverified object of a hash. It may be anything.
func (o *Store) HasUnverified(h Hash) (bool, error) {
	_, ok, err := o.unverified.find(h)
	return ok, err
}

// SettleUnverified makes objects like others of the unverified ones. It reads those that nobody has read, and removes those that
// are not what their hashes say, which it returns. Nobody else may use the store meanwhile.
func (o *Store) SettleUnverified() (damaged map[Hash]bool, err error) {
	if err := o.unverified.sealAll(); err != nil {
		return nil, err
	}
	places, err := o.unverified.known()
	if err != nil || len(places) == 0 {
		return nil, err
	}
	if damaged, err = o.damagedOf(places); err != nil {
		return nil, err
	}
	if err = o.packs.adopt(&o.unverified); err == nil {
		err = o.moveRest(damaged)
	}
	o.counted = false
	return damaged, errors.Join(err, o.Count())
}

// damagedOf reads the objects at some places that nobody has read, and returns those that are damaged.
func (o *Store) damagedOf(places map[Hash]place) (damaged map[Hash]bool, err error) {
	c := o.Coder()
	defer o.Release(c)
	damaged = map[Hash]bool{}
	for h, at := range places {
		if at.whole {
			continue
		}
		if _, err := o.unpack(c, h, &o.unverified, at, WholeSize); errors.Is(err, ErrCorrupt) {
			damaged[h] = true
		} else if err != nil {
			return nil, err
		}
	}
	return damaged, nil
}

// moveRest moves what is in packs that were not adopted, but for what is damaged, and removes these packs.
func (o *Store) moveRest(damaged map[Hash]bool) error {
	places, err := o.unverified.known()
	if err != nil {
		return err
	}
	for h, at := range places {
		if _, there, err := o.packs.find(h); err != nil {
			return err
		} else if there || damaged[h] {
			continue
		}
		text, err := o.unverified.read(at, nil)
		if err == nil { // it needs no more room than it has
			_, err = o.packs.add(h, true, func(b []byte) ([]byte, Encoding) { return append(b, text...), at.how })
		}
		if err != nil {
			return err
		}
	}
	if err := o.packs.sealAll(); err != nil {
		return err
	}
	return o.unverified.sweep(context.Background(), func(Hash) bool { return false })
}

// add stores an object in one of some packs.
func (o *Store) add(in *packs, h Hash, whole bool, text []byte, how Encoding) error {
	size, err := in.add(h, whole, func(b []byte) ([]byte, Encoding) { return append(b, text...), how })
	if err == nil {
		err = o.take(size)
	}
	return err
}

// find returns where an object is to be read: in one of some packs, or if these are nil, in a file of its own.
func (o *Store) find(h Hash) (in *packs, at place, err error) {
	at, ok, err := o.packs.find(h)
	if ok || err != nil {
		return &o.packs, at, err
	}
	if at, ok, err = o.unverified.find(h); err != nil || ok && !o.isLarge(h) {
		return &o.unverified, at, err
	}
	return nil, place{}, nil
}

// known returns where the objects are.
func (p *packs) known() (map[Hash]place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.load()
	return maps.Clone(p.places), err
}

// adopt takes over the packs of which all objects are known to be whole.
func (p *packs) adopt(from *packs) (err error) {
	from.mu.Lock() // first, as in Sweep
	defer from.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := errors.Join(p.load(), from.load()); err != nil {
		return err
	}
	moved := map[uint32]uint32{}
	for _, i := range from.whole() {
		k := from.all[i]
		name := packName(p.next)
		if err = os.Rename(filepath.Join(from.dir, k.name), filepath.Join(p.dir, name)); err != nil {
			break
		}
		moved[i] = uint32(len(p.all))
		p.next++
		p.all = append(p.all, &pack{name: name, size: k.size})
		from.release(k)
	}
	for h, at := range from.places {
		if number, ok := moved[at.pack]; ok {
			delete(from.places, h)
			at.pack = number
			p.places[h] = at
		}
	}
	return err
}

// whole returns the packs that have a place and nothing but objects that are known to be whole. The caller holds p.mu.
func (p *packs) whole() (list []uint32) {
	size := make([]int64, len(p.all))
	for _, at := range p.places {
		if at.whole {
			size[at.pack] += int64(at.length) + int64(packRecord)
		}
	}
	for i, k := range p.all {
		if k.name != "" && !k.gone && size[i]+int64(packTail) == k.size {
			list = append(list, uint32(i))
		}
	}
	return list
}

// release forgets a pack that is others' from now on. The caller holds p.mu.
func (p *packs) release(k *pack) {
	if k.file != nil {
		k.file.Close()
		k.file = nil
		p.open--
	}
	k.gone = true
}
