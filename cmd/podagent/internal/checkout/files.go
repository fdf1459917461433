package checkout

import (
	"context"
	"io"
	"io/fs"
	"os"

	"github.com/podagent/podagent/pkg/fsops"
)

// What is in the workdir and in the directory for temporary files may be anything: the
// sandbox's code has the same rights. So files are opened, and trees removed, by package
// fsops, which neither waits for a FIFO nor holds a tree in memory. Lists of directories
// are read in parts.

// create writes a file that must not exist.
func (r *run) create(path, content string, perm fs.FileMode) error {
	w, err := r.files.Create(path, fsops.WriteOptions{Perm: perm, Exclusive: true})
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Write([]byte(content)); err != nil {
		return err
	}
	_, err = w.Commit(context.Background(), fsops.SumOf([]byte(content)))
	return err
}

// remove removes a file or a tree, which need not exist. It does so also when the
// context of the checkout has ended.
func (r *run) remove(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	return r.files.Remove(ctx, path, fsops.RemoveOptions{Recursive: true, Force: true})
}

// eachName calls use for the names in a directory.
func eachName(dir string, use func(name string) error) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		names, err := file.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := use(name); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
