package checkpoint

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// underway has the transfers that run. A collection keeps their objects, also those that are in no checkpoint.
type underway struct {
	mu   sync.Mutex
	sent map[*Sender]Hash // the root directories
	// received has the receivers, each of which has what it is for. It is changed by callers that have their turn.
	received map[*Receiver]struct{}
}

// reachUnderway adds what is being sent and received. The caller has the turn.
func (s *Store) reachUnderway(ctx context.Context, reached objectSet) error {
	s.underway.mu.Lock()
	defer s.underway.mu.Unlock()
	for _, root := range s.underway.sent {
		if err := s.reach(ctx, root, reached); err != nil {
			return err
		}
	}
	for r := range s.underway.received {
		for h := range r.walk.Dirs() {
			reached.add(h)
		}
		for h := range r.walk.Contents() {
			reached.add(h)
		}
	}
	return nil
}

// A Sender sends a checkpoint, which stays until it is closed. It must not be used concurrently.
type Sender struct {
	s        *Store
	manifest []byte
	root     Hash
	walk     *tree.Walk // what is known of what the checkpoint has
	forget   func()     // what is known of the packs
	unlock   func()     // ends the turn that it has, if it has one
	coder    *object.Coder
	buf      []byte // for the data of a batch
}

// Send begins to send a checkpoint, for a [Receiver] elsewhere. The caller closes the Sender.
func (s *Store) Send(ctx context.Context, id ID) (*Sender, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, text, err := s.manifestText(id)
	if err != nil {
		return nil, fmt.Errorf("sending checkpoint %.12s: %w", id, err)
	}
	x := &Sender{s: s, manifest: text, root: m.root().Hash, walk: tree.NewWalk(), coder: s.objects.Coder()}
	if err := x.walk.Begin(x.root); err != nil {
		return nil, err
	}
	x.forget = s.objects.Use()
	s.underway.mu.Lock()
	defer s.underway.mu.Unlock()
	if s.underway.sent == nil {
		s.underway.sent = map[*Sender]Hash{}
	}
	s.underway.sent[x] = x.root
	return x, nil
}

// Manifest returns the text whose hash is the id of the checkpoint.
func (x *Sender) Manifest() []byte { return x.manifest }

// Close ends what Send began.
func (x *Sender) Close() {
	x.s.underway.mu.Lock()
	delete(x.s.underway.sent, x)
	x.s.underway.mu.Unlock()
	x.s.objects.Release(x.coder)
	x.forget()
}

// lock waits for the turn, unless the Sender has it.
func (x *Sender) lock(ctx context.Context) (err error) {
	if x.unlock != nil {
		return ctx.Err()
	}
	x.unlock, err = x.s.lock(ctx)
	return err
}

// release ends the turn: a message may take long to be sent.
func (x *Sender) release() {
	if x.unlock != nil {
		x.unlock()
		x.unlock = nil
	}
}

// A batch collects parts until there are enough for one message.
type batch struct {
	x     *Sender
	send  func([]Part) error
	parts []Part
	buf   []byte
}

func (x *Sender) batch(send func([]Part) error) *batch {
	if x.buf == nil {
		x.buf = make([]byte, 0, PartSize)
	}
	return &batch{x: x, send: send, buf: x.buf}
}

// Objects sends objects of the checkpoint, in this order. The parts are valid until send returns. An object that is not
// the checkpoint's is [ErrNotFound]. One that the store lacks, or that is cut off, is [ErrCorrupt]. Content is not compared
// with its hash: the receiver does that.
func (x *Sender) Objects(ctx context.Context, objects []Hash, send func([]Part) error) error {
	defer x.release()
	b := x.batch(send)
	for _, h := range objects {
		err := x.find(ctx, h)
		if err == nil {
			err = b.add(ctx, h)
		}
		if err != nil {
			return err
		}
	}
	return b.flush()
}

// find returns an error if the checkpoint does not have an object. It reads directories until one has it: the receiver may
// know one that was not sent.
func (x *Sender) find(ctx context.Context, h Hash) error {
	for !x.walk.Names(h) {
		x.walk.SkipContents()
		if x.walk.Done() {
			return fmt.Errorf("%w: it has no object %s", ErrNotFound, h)
		}
		dir, _ := x.walk.Next()
		text, err := x.tree(ctx, dir)
		if err == nil {
			err = x.walk.Take(dir, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// All sends all objects of the checkpoint, each once, and directories before what is in them.
func (x *Sender) All(ctx context.Context, send func([]Part) error) error {
	w := tree.NewWalk()
	if err := w.Begin(x.root); err != nil {
		return err
	}
	defer x.release()
	b := x.batch(send)
	for !w.Done() {
		h, isDir := w.Next()
		if isDir {
			text, err := x.tree(ctx, h)
			if err != nil {
				return err
			}
			if err := w.Take(h, text); err != nil {
				return err
			}
		}
		if err := b.add(ctx, h); err != nil {
			return err
		}
	}
	return b.flush()
}

func (x *Sender) tree(ctx context.Context, h Hash) ([]byte, error) {
	if err := x.lock(ctx); err != nil {
		return nil, err
	}
	return x.s.objects.DirText(h)
}

// open opens an object to be sent.
func (x *Sender) open(ctx context.Context, h Hash) (file io.ReadCloser, size int64, how Encoding, err error) {
	if err := x.lock(ctx); err != nil {
		return nil, 0, 0, err
	}
	return x.s.objects.OpenToSend(x.coder, h)
}

// add sends an object, or keeps it for the next message.
func (b *batch) add(ctx context.Context, h Hash) error {
	file, size, how, err := b.x.open(ctx, h)
	if err != nil {
		return err
	}
	defer file.Close()
	first := Part{First: true, Object: h, Size: size, Encoding: how}
	for rest := size; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if rest > 0 && (len(b.buf) == cap(b.buf) || first.First && rest > int64(cap(b.buf)-len(b.buf)) && rest <= PartSize) || len(b.parts) == MaxParts {
			if err := b.flush(); err != nil {
				return err
			}
		}
		at := len(b.buf)
		b.buf = b.buf[:at+int(min(rest, int64(cap(b.buf)-at)))]
		if _, err := io.ReadFull(file, b.buf[at:]); err != nil {
			return fmt.Errorf("%w: object %s is cut off: %w", ErrCorrupt, h, err)
		}
		first.Data = b.buf[at:]
		b.parts = append(b.parts, first)
		if rest -= int64(len(first.Data)); rest == 0 {
			return nil
		}
		first = Part{}
	}
}

// flush sends what was collected.
func (b *batch) flush() error {
	b.x.release()
	if len(b.parts) == 0 {
		return nil
	}
	err := b.send(b.parts)
	b.parts, b.buf = b.parts[:0], b.buf[:0]
	return err
}
