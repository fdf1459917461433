package checkpoint

import (
	"context"
	"fmt"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// arriving is an object that has not arrived as a whole.
type arriving struct {
	Part
	// need is what it is for; nil if it is there already.
	need *need
	// got counts the bytes that have arrived. They are in packed, or if that would take too much memory, in file.
	got    int64
	packed []byte
	file   *object.Incoming
}

// Take takes parts of objects. One that was not asked for, or is not what its hash says, is [ErrCorrupt]; what was asked
// for before must not be sent again then. The parts may be used again when it returns.
func (r *Receiver) Take(ctx context.Context, parts []Part) error {
	unlock, err := r.s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c := r.s.objects.Coder()
	defer r.s.objects.Release(c)
	for i := range parts {
		if err := r.part(c, &parts[i]); err != nil {
			return noRoom(err)
		}
	}
	return r.look()
}

func (r *Receiver) part(c *object.Coder, p *Part) error {
	if p.First != (r.arriving == nil) || !p.First && len(p.Data) == 0 {
		return errParts
	}
	if p.First {
		if err := r.begin(p); err != nil {
			return err
		}
	}
	a := r.arriving
	r.Bytes += int64(len(p.Data))
	if a.got += int64(len(p.Data)); a.got > a.Size {
		return object.Damaged(a.Object)
	}
	switch {
	case a.need == nil:
	case a.file != nil:
		if err := a.file.Add(p.Data); err != nil {
			return err
		}
	case p.First && a.got == a.Size:
		a.packed = p.Data // all of it: end stores it before Take returns
	default:
		a.packed = append(a.packed, p.Data...)
	}
	if a.got < a.Size {
		return nil
	}
	return r.end(c)
}

// begin takes what the first part of an object says.
func (r *Receiver) begin(p *Part) error {
	n := r.needed[p.Object]
	if n == nil && !(r.all && r.walk.Names(p.Object)) || n != nil && !n.asked && !r.all {
		return fmt.Errorf("%w: object %s was not asked for", ErrCorrupt, p.Object)
	}
	a := &arriving{Part: *p, need: n}
	a.Data = nil
	large := n != nil && !n.dir && p.Size > object.WholeSize
	if p.Size < 0 || p.Encoding > S2 || large && p.Encoding != Raw || n != nil && n.dir && p.Size > object.MaxDir {
		return object.Damaged(p.Object)
	}
	if large {
		var err error
		if a.file, err = r.s.objects.Incoming(); err != nil {
			return err
		}
	}
	r.arriving = a
	return nil
}

// end stores an object that has arrived as a whole.
func (r *Receiver) end(c *object.Coder) (err error) {
	a := r.arriving
	r.arriving = nil
	r.Objects++
	switch {
	case a.need == nil:
		return nil
	case a.file != nil:
		err = a.file.Commit(a.Object)
	case a.need.dir:
		err = r.s.objects.PutPacked(c, a.Object, a.packed, a.Encoding, object.MaxDir)
	case r.populates && !r.s.objects.HasOf(a.Object, r.listed): // else it is damaged, and only what is whole may take its place
		err = r.s.objects.PutUnverified(a.Object, a.packed, a.Encoding)
	default:
		err = r.s.objects.PutPacked(c, a.Object, a.packed, a.Encoding, object.WholeSize)
	}
	if err != nil {
		return err
	}
	delete(r.needed, a.Object)
	if a.need.asked {
		r.asked--
	}
	if !a.need.dir {
		return nil
	}
	text, err := r.s.objects.Read(c, a.Object, object.MaxDir)
	if err == nil {
		err = r.walk.Take(a.Object, text)
	}
	if err != nil || !r.all {
		return err
	}
	return r.look() // what comes next may be in it
}
