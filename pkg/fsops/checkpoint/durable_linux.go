package checkpoint

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// A process that is killed loses nothing that it has written. What a crash of the machine loses of a checkpoint is noticed
// when it is read, as is all that is not what its hash says. So a checkpoint does not wait for the disk. A restore does, for all
// that it is about to take out of the tree: only the store has that afterwards.

// durable are paths of files that are to be on the disk, with those of their directories.
type durable map[string]bool

func (d durable) add(path string) {
	d[path], d[filepath.Dir(path)+"/."] = true, true // since the directory's own path may be a link: see pin
}

// addObject adds the file that has an object.
func (d durable) addObject(o *object.Store, h Hash) error {
	path, err := o.FileOf(h)
	if err == nil {
		d.add(path)
	}
	return err
}

// sync waits until they are on the disk.
func (d durable) sync() error {
	for path := range d {
		file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until all that the restore takes out of the tree is on the disk, as part of the checkpoint of before.
func (r *restorer) settle(before ID) error {
	o, d := r.s.objects, durable{}
	d.add(r.s.manifestPath(before))
	if err := d.addObject(o, r.present.tree); err != nil {
		return err
	}
	err := tree.Compare(noContext, r.objects, r.present.tree, r.target.root().Hash, func(path string, a, _ *tree.Entry) error {
		if a != nil && (a.Kind == tree.Regular || a.Kind == tree.Directory) && (r.scope.reaches(path) || r.covers(path)) {
			return d.addObject(o, a.Hash)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.sync()
}

// A restore of up to maxSynced files syncs each, which takes some milliseconds a file. A larger one calls syncfs once: its
// time depends on what others have written, not on the number of files.
const maxSynced = 32

// syncFile waits until a file that a restore has written is on the disk, if there are few. Without that, a crash of the
// machine could leave it empty.
func (r *restorer) syncFile(file *os.File) error {
	if written := r.written.Add(1); r.fresh || written > maxSynced {
		return nil
	}
	return file.Sync()
}

// syncTree waits until all that a restore has changed is on the disk before the end of the journal is. If the contents of the
// files are there, some file systems see to that themselves.
func (r *restorer) syncTree(root int) error {
	if r.fresh || r.written.Load() <= maxSynced && r.s.keepsOrder(root) {
		return nil
	}
	for {
		if err := unix.Syncfs(root); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("syncfs", err)
		}
	}
}

// keepsOrder reports whether the store is on the file system of the tree, and that has one log for all names: whoever waits
// for the last one waits for all before it.
func (s *Store) keepsOrder(root int) bool {
	var tree unix.Stat_t
	var system unix.Statfs_t
	if unix.Fstat(root, &tree) != nil || tree.Dev != s.id().dev || unix.Fstatfs(root, &system) != nil {
		return false
	}
	return system.Type == unix.EXT4_SUPER_MAGIC || system.Type == unix.XFS_SUPER_MAGIC
}
