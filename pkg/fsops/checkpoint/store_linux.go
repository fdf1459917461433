package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// Options say how a [Store] works. The zero value is ready.
type Options struct {
	// Max is how many checkpoints the store keeps: 1000 if it is 0. When there are more, the
	// oldest go, those with a name last.
	Max int
	// Protected, if it is not nil, returns an error for a path, from the root of the tree, that a restore must not
	// change. It is asked for each file that would be changed.
	Protected func(path string) error
	// Mapped, if it is not nil, returns the inodes of the files that processes map to
	// write to them. See scan.
	Mapped func() map[uint64]bool
	// Volume is how many bytes the tree and the store may have together, if it is not 0 and the file system does not know
	// of that bound.
	Volume int64
	// Boot tells one start of the machine from another. Without it, a store does not notice a crash of
	// the machine.
	Boot string
}

const defaultMax = 1000

// A Store keeps the checkpoints of a tree. Its methods may be called concurrently, and wait for each other.
// No two Stores may have one directory at a time.
type Store struct {
	dir, root string
	opts      Options
	objects   *object.Store
	pinned    *pinned   // while a call has its turn
	underway  *underway // transfers
	tree      *treeUse
	index     *Hash // of the text of the index that this process has written last

	// turn has a value while a call has its turn.
	turn chan struct{}
}

// The files of a store.
const (
	objectsDir = "objects"
	packsDir   = "packs"
	// unverifiedDir has packs with contents that have come to populate the tree: see object.Store.PutUnverified.
	unverifiedDir = "unverified"
	manifestsDir  = "manifests"
	temporaryDir  = "tmp"
	indexFile     = "index"
	arrivalsFile  = "arrivals"
	journalFile   = "journal"
	// populatedFile is there if the tree was populated, and has the checkpoint's id.
	populatedFile = "populated"
	// unfinishedFile is the journal of a restore that was given up.
	unfinishedFile = "unfinished"
)

// Open returns the store in the directory dir for the tree at root. It makes the directory if it is
// missing. The two should be on one file system, which may share blocks of files between
// them; dir must not be in the tree.
//
// A directory that cannot be made is an error.
func Open(dir, root string, opts Options) (*Store, error) {
	if opts.Max <= 0 {
		opts.Max = defaultMax
	}
	s := &Store{dir: dir, root: root, opts: opts, turn: make(chan struct{}, 1), underway: &underway{}, tree: &treeUse{}, index: &Hash{}}
	s.objects = object.New(s.dirs())
	// What an earlier process has not finished is worth nothing.
	err := errors.Join(os.MkdirAll(dir, 0o700), object.RemoveTree(filepath.Join(dir, temporaryDir)))
	if err == nil {
		var unpin func()
		if unpin, err = s.pin(); err == nil {
			unpin()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the store of checkpoints: %w", err)
	}
	return s, nil
}

// dirs are the paths of the directories with objects while nobody has pinned them.
func (s *Store) dirs() object.Dirs {
	return object.Dirs{
		Large: filepath.Join(s.dir, objectsDir), Packs: filepath.Join(s.dir, packsDir),
		Unverified: filepath.Join(s.dir, unverifiedDir), Temporary: filepath.Join(s.dir, temporaryDir),
	}
}

// lock waits for the other calls.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.turn <- struct{}{}:
		unpin, err := s.pin()
		if err != nil {
			<-s.turn
			return nil, fmt.Errorf("opening the store of checkpoints: %w", err)
		}
		s.boundVolume(ctx)
		done := s.objects.Use()
		return func() {
			done()
			unpin()
			<-s.turn
		}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Create makes a checkpoint of what is in the tree now.
//
// Commands may run meanwhile. A file that changes while it is read is read again; if it never keeps still,
// Checkpoint.Moving names it. Files that appear, vanish or move meanwhile may be in the checkpoint or not.
//
// The store takes half of what is free at most. If a checkpoint needs more, the oldest ones without a name go;
// if there are none, Create fails with [ErrNoRoom]. After a restore that could be neither completed nor undone, it
// fails with [ErrUnfinished]: see [Store.Restore].
func (s *Store) Create(ctx context.Context, opts CreateOptions) (Checkpoint, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	defer unlock()
	c := Checkpoint{}
	if err = s.checkDecided(); err == nil {
		c, _, err = s.create(ctx, opts, "")
	}
	if err != nil {
		return c, fmt.Errorf("making a checkpoint: %w", err)
	}
	// It is done in any case. If there are too many checkpoints then, there will be one more call that drops some.
	_ = s.limit(ctx, c.ID)
	return c, nil
}

// create is Create for callers that have their turn, and need some checkpoints, which do not go for a lack of room. The
// checkpoint also has what the restore with a token has staged, if there is one. It also returns what the scan found.
func (s *Store) create(ctx context.Context, opts CreateOptions, token string, needed ...ID) (c Checkpoint, f *found, err error) {
	if len(opts.Name) > maxName {
		return c, nil, fmt.Errorf("%w: its name has more than %d bytes", ErrTooLarge, maxName)
	}
	if err := s.objects.Count(); err != nil {
		return c, nil, err
	}
	exclude, err := omit(opts.Exclude, token)
	if err != nil {
		return c, nil, err
	}
	before := s.objects.Used()
	f, err = s.scanInRoom(ctx, exclude, needed)
	if err != nil {
		return c, nil, err
	}
	m := f.manifest(opts)
	m.Stored = max(0, s.objects.Used()-before)
	id, err := s.writeManifest(m)
	if err != nil {
		return c, nil, err
	}
	s.writeIndex(f.index)
	_ = s.objects.Tidy(ctx) // packs that stay small and many cost time only
	return m.describe(id), f, nil
}

// store scans the tree, and stores what is in it.
func (s *Store) store(ctx context.Context, exclude omitted) (*found, error) {
	f, err := s.scan(ctx, s.objects, exclude)
	if err == nil {
		err = s.objects.Seal()
	}
	if err != nil {
		s.objects.Abandon()
		return nil, err
	}
	return f, nil
}

// found is the result of a scan.
type found struct {
	*scan
	began        time.Time
	tree         Hash
	index        *index
	files, bytes int64
}

func (f *found) manifest(opts CreateOptions) *manifest {
	return &manifest{
		Format: manifestFormat, Tree: f.tree[:], Name: opts.Name, Automatic: opts.Automatic, Time: time.Now().UTC(), Began: f.began.UTC(), Files: f.files, Bytes: f.bytes,
		Exclude: opts.Exclude, LeftOut: f.leftOut, MoreLeftOut: f.moreLeft, Moving: f.moving, MoreMoving: f.moreMoving,
	}
}

// scan scans the tree but for what is excluded, and stores its objects there.
func (s *Store) scan(ctx context.Context, to *object.Store, exclude omitted) (*found, error) {
	fd, err := openat(unix.AT_FDCWD, s.root, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: s.root, Err: err}
	}
	old, ok := s.readIndex()
	// After a crash of the machine, objects may be there without all of their content.
	to.Suspect = !ok
	sc := &scan{ctx: ctx, objects: to, old: old, exclude: exclude, all: timesTellLittle(fd), skip: s.id()}
	if s.opts.Mapped != nil {
		sc.mapped = s.opts.Mapped()
	}
	f := &found{scan: sc, began: fileClock()}
	if f.tree, err = sc.run(fd); err != nil {
		return nil, err
	}
	f.index = &index{boot: s.opts.Boot, records: sc.new[:0]} // which the scan needs no more
	for _, r := range sc.new {
		if r.inodeID != (inodeID{}) {
			f.index.records = append(f.index.records, r)
			f.bytes += r.bytes
		}
	}
	f.files = int64(len(f.index.records))
	to.Suspect = false
	return f, nil
}

// fileClock returns the time that a file would get that is changed now, or an earlier one.
func fileClock() time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return time.Now().Add(-tick)
	}
	return time.Unix(now.Unix())
}

// timesTellLittle reports whether the times of files do not tell that processes have changed them by
// mapping them.
func timesTellLittle(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) != nil || st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
}

// id tells the store's directory from others.
func (s *Store) id() inodeID {
	var st unix.Statx_t
	// The path may be that of a descriptor, which is a link.
	if unix.Statx(unix.AT_FDCWD, s.dir, 0, unix.STATX_BASIC_STATS, &st) != nil {
		return inodeID{}
	}
	return inodeID{deviceOf(&st), st.Ino}
}

// readIndex returns the index of the last scan of this process, which is empty if there is none. It reports false if there is
// none of this start of the machine and the store has something: then objects may be cut off.
func (s *Store) readIndex() (*index, bool) {
	text, err := s.readFile(indexFile, maxIndexSize)
	if err == nil {
		if x, err := decodeIndex(text); err == nil && x.boot == s.opts.Boot {
			if object.Sum(text) != *s.index { // who can write to the store could have files taken for others
				x = new(index)
			}
			return x, true
		}
	}
	names, err := s.manifestNames()
	return new(index), err == nil && len(names) == 0 && s.objects.Used() == 0
}

// writeIndex replaces the index. One that cannot be written is the older one, which is as good.
func (s *Store) writeIndex(x *index) {
	text := x.encode()
	if s.writeFile(indexFile, text) == nil {
		*s.index = object.Sum(text)
	}
}

// readFile reads a file of the store that has up to limit bytes. It waits for nobody: whoever can write to the store
// may have put something else there.
func (s *Store) readFile(name string, limit int64) ([]byte, error) {
	file, size, err := object.OpenRegular(s.path(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > limit {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrCorrupt, filepath.Base(name), size)
	}
	return io.ReadAll(io.LimitReader(file, limit))
}

// writeFile makes or replaces a file of the store, so that it is there as a whole or not at all.
func (s *Store) writeFile(name string, text []byte) error {
	tmp := s.objects.Temporary()
	file, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && name == journalFile {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = s.rename(tmp, name)
	}
	if err != nil {
		err = errors.Join(err, object.RemoveAny(tmp))
	}
	return err
}

// rename gives a file a name in the store, in place of whatever has that.
func (s *Store) rename(path, name string) error {
	err := os.Rename(path, s.path(name))
	if errors.Is(err, fs.ErrExist) { // it is a directory: see remove
		if err = s.remove(name); err == nil {
			err = os.Rename(path, s.path(name))
		}
	}
	return err
}

// remove removes what has a name in the store, if anything has. Whoever can write to the store may have made a directory
// there. Nothing depends on how long it takes to remove that: it loses the name first, and the next Open removes what is left.
func (s *Store) remove(name string) error {
	err := object.RemoveAny(s.path(name))
	if !errors.Is(err, fs.ErrExist) { // which is that it is not empty
		return err
	}
	away := s.objects.Temporary()
	if err := os.Rename(s.path(name), away); err != nil {
		return err
	}
	_ = object.RemoveTree(away)
	return nil
}

func manifestFile(id ID) string { return filepath.Join(manifestsDir, string(id)) }

func (s *Store) manifestPath(id ID) string { return s.path(manifestFile(id)) }

func (s *Store) writeManifest(m *manifest) (ID, error) {
	text, id, err := m.encode()
	if err == nil {
		err = s.writeFile(manifestFile(id), text)
	}
	return id, err
}

// manifest reads a checkpoint's manifest.
func (s *Store) manifest(id ID) (*manifest, error) {
	m, _, err := s.manifestText(id)
	return m, err
}

func (s *Store) manifestText(id ID) (*manifest, []byte, error) {
	if _, err := ParseID(string(id)); err != nil {
		return nil, nil, err
	}
	text, err := s.readFile(manifestFile(id), MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if err != nil {
		return nil, nil, err
	}
	m, err := decodeManifest(id, text)
	return m, text, err
}
