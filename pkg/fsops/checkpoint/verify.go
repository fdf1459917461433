package checkpoint

import (
	"fmt"
	"hash"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// A verifier compares all objects of a checkpoint with its id, for those who have no store. Like a [Receiver], it believes
// nothing. What it takes is bounded by what the directories say, and they are bounded as in Create.
type verifier struct {
	walk *tree.Walk
	// due are the objects that have been named and have not come.
	due map[Hash]due

	// Of the object that is coming: what it is, how many bytes of it are to come, and what it has so far. That is in
	// packed, or if it is the content of a file as it is, in sum alone.
	coming  Part
	is      due
	rest    int64
	packed  []byte
	sum     hash.Hash
	decoder object.Coder
}

// due says what an object is for, which may be both, and how large the content may be.
type due struct {
	dir, file bool
	size      int64
}

// maxExtentsSize is what the object of a file with holes has besides the data, at most.
const maxExtentsSize = 17 << 20

func newVerifier(id ID, text []byte) (*verifier, error) {
	m, err := decodeManifest(id, text)
	if err == nil {
		err = m.valid()
	}
	if err != nil {
		return nil, err
	}
	v := &verifier{walk: tree.NewWalk(), due: map[Hash]due{}, sum: object.NewSum()}
	if err := v.walk.Begin(m.root().Hash); err != nil {
		return nil, err
	}
	v.note()
	return v, nil
}

// note adds what has been named to what is due.
func (v *verifier) note() {
	for !v.walk.Done() {
		h, isDir := v.walk.Next()
		d := v.due[h]
		d.dir, d.file = d.dir || isDir, d.file || !isDir
		v.due[h] = d
	}
}

// take takes a part of an object.
func (v *verifier) take(p *Part) error {
	if p.First != (v.rest == 0) || !p.First && len(p.Data) == 0 {
		return errParts
	}
	if p.First {
		if err := v.begin(p); err != nil {
			return err
		}
	}
	if v.rest -= int64(len(p.Data)); v.rest < 0 {
		return errParts
	}
	if v.streams() {
		v.sum.Write(p.Data)
	} else {
		v.packed = append(v.packed, p.Data...)
	}
	if v.rest > 0 {
		return nil
	}
	return v.end()
}

// streams reports whether what is coming is compared without being kept.
func (v *verifier) streams() bool { return !v.is.dir && v.coming.Encoding == Raw }

// begin takes what the first part of an object says. A directory that is a file's content, too, comes twice.
func (v *verifier) begin(p *Part) error {
	d, ok := v.due[p.Object]
	if !ok {
		return fmt.Errorf("%w: object %s is not one of it, or came before", ErrCorrupt, p.Object)
	}
	v.is = due{dir: d.dir, file: !d.dir, size: d.size}
	if d.dir && d.file {
		v.due[p.Object] = due{file: true, size: d.size}
	} else {
		delete(v.due, p.Object)
	}
	switch {
	case v.is.dir:
		v.is.size = object.MaxDir
	case p.Encoding != Raw:
		v.is.size = min(v.is.size, object.WholeSize)
	}
	if p.Size < 0 || p.Size > v.is.size || p.Encoding > S2 {
		return object.Damaged(p.Object)
	}
	v.coming, v.rest, v.packed = *p, p.Size, v.packed[:0]
	v.coming.Data = nil
	v.sum.Reset()
	return nil
}

// end compares an object that has come as a whole.
func (v *verifier) end() error {
	if v.streams() {
		if Hash(v.sum.Sum(nil)) != v.coming.Object {
			return object.Damaged(v.coming.Object)
		}
		return nil
	}
	text, err := v.decoder.Decode(v.coming.Object, v.packed, v.coming.Encoding, v.is.size)
	if err != nil || !v.is.dir {
		return err
	}
	if err := v.walk.Take(v.coming.Object, text); err != nil {
		return err
	}
	v.note()
	return tree.Each(text, func(e *tree.Entry) error {
		if d, ok := v.due[e.Hash]; ok && e.Kind == tree.Regular {
			d.size = max(d.size, contentSize(e))
			v.due[e.Hash] = d
		}
		return nil
	})
}

// contentSize returns how large the object of a file may be.
func contentSize(e *tree.Entry) int64 {
	if e.Flags&tree.Holes == 0 {
		return e.Size
	}
	return min(e.Size, 1<<62) + maxExtentsSize
}

// complete returns an error if something is missing, or if the tree is beyond a bound.
func (v *verifier) complete() error {
	if v.rest > 0 || len(v.due) > 0 {
		return fmt.Errorf("%w: %d objects of it are missing", ErrCorrupt, max(1, len(v.due)))
	}
	return v.walk.Check()
}
