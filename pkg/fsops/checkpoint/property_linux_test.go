package checkpoint_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// rounds is how many random trees are tried, and allRounds how many in a run of everything.
const (
	rounds    = 200
	allRounds = 10_000
)

// isFull reports whether everything is to be tested.
func isFull() bool { return os.Getenv("PODAGENT_TEST_FULL") != "" }

// Random trees come back as they were, content and all that describes it, however commands have changed them.
func TestRandomTreesComeBack(t *testing.T) {
	n := rounds
	if isFull() {
		n = allRounds
	}
	var made [len(changes)]atomic.Int64
	t.Cleanup(func() {
		for i, c := range changes {
			if made[i].Load() == 0 && !t.Failed() {
				t.Errorf("in no round there was this change: %s", c.name)
			}
		}
	})
	for worker := range 4 {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			for round := worker; round < n && !t.Failed(); round += 4 {
				seed := uint64(round) + 1
				if n > rounds {
					seed = rand.Uint64()
				}
				for kind, count := range roundTrip(t, newRandomTree(t, seed), seed) {
					made[kind].Add(count)
				}
			}
		})
	}
}

// roundTrip is one round. It returns how many changes of each kind it has made.
func roundTrip(t *testing.T, rt *randomTree, seed uint64) (made []int64) {
	t.Helper()
	defer os.RemoveAll(filepath.Dir(rt.root))
	type state struct {
		id   checkpoint.ID
		what map[string]string
	}
	var states []state
	for range 2 + rt.N(3) {
		for range 1 + rt.N(25) {
			rt.alter()
		}
		c, err := rt.store.Create(t.Context(), checkpoint.CreateOptions{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		states = append(states, state{c.ID, rt.look()})
	}
	for range 3 {
		for range rt.N(10) {
			rt.alter()
		}
		s := states[rt.N(len(states))]
		if _, err := rt.store.Restore(t.Context(), s.id, checkpoint.RestoreOptions{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(s.what, rt.look()); diff != "" {
			t.Fatalf("seed %d: (-checkpoint +restored)\n%s", seed, diff)
		}
	}
	return rt.made
}

// A randomTree is a tree that changes at random.
type randomTree struct {
	*rand.Rand
	t     *testing.T
	root  string
	store *checkpoint.Store
	made  []int64 // how many changes of each kind
	large int     // one content in so many is larger than what goes into a pack
}

func newRandomTree(t *testing.T, seed uint64) *randomTree {
	t.Helper()
	dir, err := os.MkdirTemp("", "checkpoint-")
	if err != nil {
		t.Fatal(err)
	}
	rt := &randomTree{Rand: rand.New(rand.NewPCG(seed, seed)), t: t, root: filepath.Join(dir, "tree"), made: make([]int64, len(changes)), large: 40}
	if err := os.Mkdir(rt.root, 0o755); err != nil {
		t.Fatal(err)
	}
	if rt.store, err = checkpoint.Open(filepath.Join(dir, "store"), rt.root, checkpoint.Options{}); err != nil {
		t.Fatal(err)
	}
	return rt
}

func (rt *randomTree) N(n int) int { return rt.IntN(n) }

var names = []string{"a", "b", "c", "dir", "Größe", "not\xffutf8", "with space", "new\nline", "-dash", "z.go", ".hidden", strings.Repeat("long", 63)}

// pick returns a path in a directory that is there.
func (rt *randomTree) pick() string {
	dirs := []string{rt.root}
	_ = filepath.WalkDir(rt.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return filepath.Join(dirs[rt.N(len(dirs))], names[rt.N(len(names))])
}

// file returns the path of a regular file that is there, "" if there is none.
func (rt *randomTree) file() string {
	var files []string
	_ = filepath.WalkDir(rt.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return ""
	}
	return files[rt.N(len(files))]
}

// content is some bytes, which compress or not.
func (rt *randomTree) content() []byte {
	size := []int{0, 1, 100, 5000, 70_000}[rt.N(5)]
	if rt.N(rt.large) == 0 {
		size = 1<<20 + rt.N(1<<20)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rt.Uint32())
	}
	if rt.N(2) == 0 {
		b = bytes.Repeat([]byte("hay "), size/4)
	}
	return b
}

// changes are the kinds of changes. Each is made at a path, or to a file that is there.
var changes = [...]struct {
	name string
	make func(rt *randomTree, path string) error
}{
	{"a file written", (*randomTree).write},
	{"another file written", (*randomTree).write},
	{"one more file written", (*randomTree).write},
	{"a directory", func(_ *randomTree, p string) error { return os.Mkdir(p, 0o755) }},
	{"a symbolic link", (*randomTree).symlink},
	{"a hard link", (*randomTree).link},
	{"a rename", func(rt *randomTree, p string) error { return os.Rename(rt.pick(), p) }},
	{"a removal", (*randomTree).remove},
	{"a FIFO", func(_ *randomTree, p string) error { return unix.Mkfifo(p, 0o600) }},
	{"a mode", (*randomTree).chmod},
	{"a time", (*randomTree).touch},
	{"holes", (*randomTree).writeSparse},
	{"a write to mapped memory", (*randomTree).writeMapped},
	{"a write that sets the time back", (*randomTree).edit},
	{"an owner", func(rt *randomTree, p string) error { return os.Lchown(p, 1000*rt.N(2), 1000*rt.N(2)) }},
}

// alter makes a change. One that cannot be made, such as a file in the place of a directory, does not count.
func (rt *randomTree) alter() {
	kind := rt.N(len(changes))
	if err := changes[kind].make(rt, rt.pick()); err == nil {
		rt.made[kind]++
	}
}

func (rt *randomTree) symlink(p string) error {
	return os.Symlink([]string{"a", "../b", "/nowhere/else", "not\xff", strings.Repeat("x", 300)}[rt.N(5)], p)
}

func (rt *randomTree) link(p string) error {
	from := rt.pick() // a link or FIFO, perhaps
	if f := rt.file(); f != "" && rt.N(2) == 0 {
		from = f
	}
	return os.Link(from, p)
}

func (rt *randomTree) touch(p string) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(rt.Int64N(2e18) - 1e17)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, p, times, unix.AT_SYMLINK_NOFOLLOW)
}

func (rt *randomTree) chmod(p string) error {
	info, err := os.Lstat(p)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		err = fs.ErrInvalid
	}
	if err != nil {
		return err
	}
	return unix.Chmod(p, []uint32{0o600, 0o755, 0o4755, 0o1777, 0o400}[rt.N(5)])
}

func (rt *randomTree) remove(p string) error {
	if _, err := os.Lstat(p); err != nil {
		return err
	}
	return os.RemoveAll(p)
}

// open opens a regular file for writing.
func (rt *randomTree) open(p string, flags int) (*os.File, error) {
	file, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|flags, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.Join(fs.ErrInvalid, err)
	}
	return file, nil
}

func (rt *randomTree) write(p string) error {
	file, err := rt.open(p, os.O_TRUNC)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(rt.content())
	return err
}

// writeSparse makes a file with holes.
func (rt *randomTree) writeSparse(p string) error {
	file, err := rt.open(p, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	for range rt.N(4) {
		_, writeErr := file.WriteAt(rt.content(), rt.Int64N(4<<20))
		err = errors.Join(err, writeErr)
	}
	return errors.Join(err, file.Truncate(rt.Int64N(6<<20)))
}

// writeMapped changes a file by memory that is mapped from it.
func (rt *randomTree) writeMapped(string) error {
	file, err := os.OpenFile(rt.file(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return errors.Join(fs.ErrInvalid, err)
	}
	mem, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		rt.t.Fatal(err)
	}
	mem[rt.N(len(mem))]++
	return unix.Munmap(mem)
}

// edit changes a byte of a file, and sets its time back.
func (rt *randomTree) edit(string) error {
	path := rt.file()
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return errors.Join(fs.ErrInvalid, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt([]byte{byte(rt.Uint32())}, rt.Int64N(info.Size()))
	return errors.Join(err, os.Chtimes(path, time.Time{}, info.ModTime()))
}

// extents returns where a file has data, the first byte and the one behind the last, and holes between.
func (rt *randomTree) extents(path string, size int64) (list [][2]int64) {
	rt.t.Helper()
	file, err := os.Open(path)
	if err != nil {
		rt.t.Fatal(err)
	}
	defer file.Close()
	var disk unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &disk); err != nil {
		rt.t.Fatal(err)
	}
	if disk.Type == unix.XFS_SUPER_MAGIC { // which takes for data what it sets aside for writes to come
		return nil
	}
	for at := int64(0); at < size; {
		from, err := file.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		to, holeErr := file.Seek(from, unix.SEEK_HOLE)
		if err = errors.Join(err, holeErr); err != nil {
			rt.t.Fatal(err)
		}
		list, at = append(list, [2]int64{from, to}), to
	}
	return list
}

// look describes everything in the tree.
func (rt *randomTree) look() map[string]string {
	rt.t.Helper()
	what, firsts := map[string]string{}, map[uint64]string{}
	var paths []string
	err := filepath.WalkDir(rt.root, func(path string, d fs.DirEntry, err error) error {
		if path != rt.root {
			paths = append(paths, path)
		}
		return err
	})
	slices.Sort(paths)
	for _, path := range paths {
		var st unix.Stat_t
		err = errors.Join(err, unix.Lstat(path, &st))
		text := fmt.Sprintf("%o %d:%d %d", st.Mode, st.Uid, st.Gid, st.Mtim.Nano())
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			content, readErr := os.ReadFile(path)
			err = errors.Join(err, readErr)
			text += fmt.Sprintf(" %d %x", len(content), sha256.Sum256(content))
			if st.Blocks*512+4096 <= st.Size { // a file without a whole block that is none counts as one without holes
				text += fmt.Sprint(" with data at ", rt.extents(path, st.Size))
			}
		case unix.S_IFLNK:
			target, readErr := os.Readlink(path)
			err = errors.Join(err, readErr)
			text += " -> " + target
		}
		if first := firsts[st.Ino]; first != "" {
			text += " as " + first
		} else if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			firsts[st.Ino] = path
		}
		what[strings.TrimPrefix(path, rt.root+"/")] = text
	}
	if err != nil {
		rt.t.Fatal(err)
	}
	return what
}
