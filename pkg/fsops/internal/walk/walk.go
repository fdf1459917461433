// Package walk visits the files of a tree with several goroutines at once, as
// fast as the system lists directories.
//
// It goes from one directory descriptor to the next: paths may be of any length, a
// directory that is moved does not lead it astray, and the system looks up one name
// at a time. It asks for the names alone if the system gives the type of a file
// along with its name. In memory it holds the directories that are yet to be read,
// and a part of the one that each goroutine reads. When [Tree] returns, all
// descriptors are closed, and visit is not called any more. [Sorted] is slower, and
// keeps the order of the paths.
package walk

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// The errors that a walk adds to those of the system.
var (
	// ErrCycle says that a symbolic link that is followed leads to a directory
	// that it lies in.
	ErrCycle = errors.New("symbolic link leads to a directory that holds it")
	// ErrNotRegular says that the file to be opened is no regular file.
	ErrNotRegular = errors.New("not a regular file")
)

// Options says what a walk leaves out, each directory with all that is in it, and
// how many goroutines walk.
type Options struct {
	// Workers is how many goroutines walk; 0 means one.
	Workers int
	// NoHidden leaves out names that begin with a dot, except .git and names that
	// the rules of Ignore keep.
	NoHidden bool
	// NoGit leaves out .git.
	NoGit bool
	// Ignore are the rules in the root for what to leave out, nil for none. The walk
	// releases those that it reads itself, so that another walk may use Ignore again.
	Ignore *ignore.Dir
	// Follow visits the files that symbolic links name in place of the links. One
	// that leads nowhere, or to a directory that it lies in, has an Err.
	Follow bool
	// Value is what [Entry.Value] returns for the root's entries.
	Value any
	// Prune, if not nil, leaves out the entries for which it returns true. It gets the
	// path below the root.
	Prune func(rel string, typ fs.FileMode) bool
}

// hides reports whether the options leave out a name, by itself or by the rules of
// its directory, which may be nil.
func (o *Options) hides(rules *ignore.Dir, name string, isDir bool) bool {
	decision := ignore.Undecided
	switch {
	case name == ignore.GitDir:
		if o.NoGit {
			return true
		}
		decision = ignore.Keep
	case rules != nil:
		decision = rules.Decide(name, isDir)
	}
	return decision == ignore.Ignore || decision == ignore.Undecided && o.NoHidden && name[0] == '.'
}

// Tree calls visit for every entry below the directory root, which may be a
// symbolic link, a directory before what is in it and otherwise in no order.
// It does so from opts.Workers goroutines at once; worker (from 0, less than
// Workers) is the goroutine's number, so that a caller can keep a state for each.
//
// A directory that can't be read is visited once more, with an Err. A file of rules
// that can't be read is visited with an Err and its own path. The walk goes on
// after both. A file that is removed during the walk is no error. Tree ends with
// visit's first error, or that of ctx, a few entries after it.
func Tree(ctx context.Context, root string, opts Options, visit func(worker int, e *Entry) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := &tree{root: root, opts: opts, visit: visit}
	t.queue.init(&dir{value: opts.Value})
	defer t.queue.closeAll()
	defer context.AfterFunc(ctx, func() { t.queue.stop(ctx.Err()) })()
	var workers sync.WaitGroup
	for id := 1; id < opts.Workers; id++ {
		workers.Go(func() { t.work(id) })
	}
	t.work(0)
	workers.Wait()
	return t.queue.failure()
}

// A tree is one walk.
type tree struct {
	root  string
	opts  Options
	visit func(worker int, e *Entry) error
	queue queue
}

// A dir is a directory of the walk. It is known from when its parent was read
// until all below it was visited.
type dir struct {
	parent *dir // nil for the root
	name   string
	linked bool        // a symbolic link is to be followed to it
	value  any         // the caller's
	rules  *ignore.Dir // set when it is read; nil for none
	id     fileID      // set when it is read, if links are followed

	// The following fields belong to the worker that opens the directory, and to the
	// queue once that has a job for which it is open.
	handle  handle // fixed while pins is not 0
	open    bool
	counted bool // in the queue's number of open ones
	pins    int  // how many use the handle now
	pending int  // directories in it that are yet to be opened
	left    int  // jobs in it, and directories in it with jobs left, that are not done
}
