package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// A Receiver takes a checkpoint of another store, from a [Sender] there. It must not be used concurrently.
//
// It believes nothing. All that arrives is compared with the hash by which it was asked for, beginning with the ID, and
// bounded: the depth and the number of files as in Create, the bytes by what is free. With [ReceiveOptions].Populates, Populate
// compares the smaller contents.
type Receiver struct {
	s    *Store
	id   ID
	text []byte
	all  bool
	// suspect says that the objects of the store may have been cut off: see object.Store.Suspect.
	suspect bool
	// populates has contents of up to object.WholeSize stored before they are compared with their hashes.
	populates bool

	walk *tree.Walk
	// needed are the objects that are known and have not arrived, dirs and files those of them that nobody was asked for.
	needed      map[Hash]*need
	dirs, files []Hash
	asked       int
	// listed are the objects with files of their own that the store had before.
	listed object.List

	// arriving is the object of which a part has arrived.
	arriving *arriving

	committed bool
	forget    func() // what is known of the packs

	// Objects and Bytes count what has arrived, as it was sent.
	Objects, Bytes int64
}

// A need is an object that has not arrived.
type need struct{ dir, asked bool }

// ReceiveOptions say how a checkpoint arrives.
type ReceiveOptions struct {
	// All says that every object comes, as [Sender.All] sends them; nothing is to be asked for.
	All bool
	// Populates says that [Store.Populate] comes next. Receive fails at once if the tree cannot be populated now, with the error
	// of Populate. Contents of up to 1 MiB are compared with their hashes only when Populate makes files of them. Until then,
	// no other call takes them for what a checkpoint has stored. If one is damaged, the checkpoint goes.
	Populates bool
}

// Receive begins to take the checkpoint with an ID, whose manifest is this text. The caller closes the Receiver.
func (s *Store) Receive(ctx context.Context, id ID, text []byte, opts ReceiveOptions) (*Receiver, error) {
	if _, err := ParseID(string(id)); err != nil {
		return nil, err
	}
	if len(text) > MaxManifest {
		return nil, fmt.Errorf("%w: its manifest has more than %d bytes", ErrTooLarge, MaxManifest)
	}
	m, err := decodeManifest(id, text)
	if err == nil {
		err = m.valid()
	}
	if err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.objects.Count(); err == nil && opts.Populates {
		err = s.checkUnpopulated()
	}
	if err != nil {
		unlock()
		return nil, err
	}
	_, sound := s.readIndex()
	r := &Receiver{
		s: s, id: id, text: text, all: opts.All, suspect: !sound, populates: opts.Populates,
		walk: tree.NewWalk(), needed: map[Hash]*need{}, forget: s.objects.Use(),
	}
	s.tree.forget()
	s.underway.mu.Lock()
	if s.underway.received == nil {
		s.underway.received = map[*Receiver]struct{}{}
	}
	s.underway.received[r] = struct{}{}
	s.underway.mu.Unlock()
	if r.listed, err = s.objects.List(); err == nil {
		err = r.walk.Begin(m.root().Hash)
	}
	if err == nil {
		err = r.look()
	}
	if err != nil {
		unlock()
		r.Close()
		return nil, err
	}
	unlock()
	return r, nil
}

// Close ends what Receive began. What has arrived of a checkpoint that is not complete stays until other checkpoints
// need the room.
func (r *Receiver) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), sealWait)
	defer cancel()
	if unlock, err := r.s.lock(ctx); err == nil {
		defer unlock()
		if !r.committed {
			_ = r.s.objects.Seal() // what cannot be kept is sent again
		}
	}
	r.drop()
	r.s.underway.mu.Lock()
	delete(r.s.underway.received, r)
	r.s.underway.mu.Unlock()
	r.forget()
}

// sealWait is how long the end of a transfer that failed waits for the store, to keep what has arrived.
const sealWait = 10 * time.Second

// drop drops an object that has not arrived as a whole.
func (r *Receiver) drop() {
	if r.arriving != nil && r.arriving.file != nil {
		r.arriving.file.Discard()
	}
	r.arriving = nil
}

// look finds out which objects are known and not there. It reads the directories that are there. The caller has the turn.
func (r *Receiver) look() error {
	r.s.objects.Suspect = r.suspect
	defer func() { r.s.objects.Suspect = false }()
	// Of the contents, no more are looked for than may be asked for: it can be many.
	for !r.walk.Done() && (r.walk.DirsLeft() || r.all || len(r.needed) < maxWanted) {
		h, isDir := r.walk.Next()
		if n := r.needed[h]; n != nil {
			n.dir = n.dir || isDir
			continue
		}
		// What an earlier transfer has left may be damaged.
		if r.s.objects.HasOf(h, r.listed) || !isDir && r.hasUnverified(h) && r.s.objects.Check(h) == nil {
			there, err := r.there(h, isDir)
			if err != nil {
				return err
			}
			if there {
				continue
			}
		}
		r.need(h, isDir)
	}
	return nil
}

// hasUnverified reports whether content is there that Populate will compare with its hash.
func (r *Receiver) hasUnverified(h Hash) bool {
	if !r.populates {
		return false
	}
	ok, err := r.s.objects.HasUnverified(h)
	return ok && err == nil
}

func (r *Receiver) need(h Hash, isDir bool) {
	r.needed[h] = &need{dir: isDir}
	if isDir {
		r.dirs = append(r.dirs, h)
	} else {
		r.files = append(r.files, h)
	}
}

// there reads an object that is there, if it is a directory. It reports false for one that is damaged.
func (r *Receiver) there(h Hash, isDir bool) (bool, error) {
	if !isDir {
		return true, nil
	}
	text, err := r.s.objects.DirText(h)
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.walk.Take(h, text)
}

// Wants returns the objects that are to be asked for now, up to [MaxWant]. It does not return any of them again.
func (r *Receiver) Wants() (list []Hash) {
	if r.all {
		return nil
	}
	for _, from := range []*[]Hash{&r.dirs, &r.files} {
		for len(*from) > 0 && len(list) < MaxWant && r.asked < maxWanted {
			h := (*from)[0]
			*from = (*from)[1:]
			r.needed[h].asked = true
			r.asked++
			list = append(list, h)
		}
	}
	return list
}

// Complete reports whether all objects are there.
func (r *Receiver) Complete() bool { return len(r.needed) == 0 && r.walk.Done() && r.arriving == nil }

// Commit makes what was received a checkpoint of this store. It reports false if something is to be asked for again: it
// went while other calls used the store.
func (r *Receiver) Commit(ctx context.Context) (c Checkpoint, done bool, err error) {
	if !r.Complete() {
		return c, false, fmt.Errorf("%w: %d objects of it are missing", ErrCorrupt, max(1, len(r.needed)))
	}
	if err := r.walk.Check(); err != nil {
		return c, false, err
	}
	unlock, err := r.s.lock(ctx)
	if err != nil {
		return c, false, err
	}
	defer unlock()
	if err := r.s.objects.Seal(); err != nil {
		return c, false, noRoom(err)
	}
	if r.lookAgain(); !r.Complete() {
		return c, false, nil
	}
	m, err := r.keepManifest()
	if err != nil {
		return c, false, noRoom(err)
	}
	r.committed = true
	_ = r.s.limit(ctx, r.id) // as in Create
	return m.describe(r.id), true, nil
}

// keepManifest writes the manifest. A checkpoint that is there stays as it is: it may be of this tree.
func (r *Receiver) keepManifest() (*manifest, error) {
	if m, err := r.s.manifest(r.id); err == nil {
		return m, nil
	}
	m, err := decodeManifest(r.id, r.text)
	if err == nil {
		err = r.s.noteArrival(r.id)
	}
	if err == nil {
		err = r.s.writeFile(manifestFile(r.id), r.text)
	}
	return m, err
}

// lookAgain finds out which objects are not there any more.
func (r *Receiver) lookAgain() {
	for h := range r.walk.Dirs() {
		if !r.s.objects.Has(h) {
			r.need(h, true)
		}
	}
	for h := range r.walk.Contents() {
		if r.needed[h] == nil && !r.hasUnverified(h) && !r.s.objects.Has(h) {
			r.need(h, false)
		}
	}
}
