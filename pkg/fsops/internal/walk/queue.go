package walk

import (
	"sync"
	"sync/atomic"
)

// A queue holds the jobs that are to be done, latest first: the walk goes deep
// before it goes wide, and few directories are open at a time.
//
// Workers take its lock about once for a directory. If they took it more often, the
// lock would take longer than the system does.
type queue struct {
	mu   sync.Mutex
	more sync.Cond // there are jobs, or there will be none any more
	jobs []job
	// busy and idle count workers.
	busy, idle int
	// open is how many directories are open for jobs. The jobs below evicted need no
	// unpinned one.
	open, evicted int
	root          *dir
	err           error

	_ [64]byte // the following fields are read without the lock, and seldom change
	// hungry is how many workers could use a job; stopped says that the walk must end.
	hungry  atomic.Int32
	stopped atomic.Bool
	_       [64]byte
}

// A job is a directory to read, or entries of a directory to visit.
type job struct {
	dir     *dir
	entries []dirent // nil for a directory to read
	// from is the nearest directory above that is open, and stays so until the job
	// is done: the directory is opened from there. Nil for the root.
	from *dir
}

func (q *queue) init(root *dir) {
	q.more.L = &q.mu
	q.root = root
	root.pins++ // stays open for directories without another open one above them
	root.left++
	q.jobs = append(q.jobs, job{dir: root})
}

// next notes that a job is done, unless that is the zero job, and waits for
// another. It returns false when all is done, or the walk has been stopped.
func (q *queue) next(last job) (job, bool) {
	q.mu.Lock()
	unused := [2]handle{noHandle, noHandle}
	if last.dir != nil {
		q.busy--
		unused = [2]handle{q.unpin(last.dir), q.unpin(last.from)}
		q.done(last.dir)
	}
	q.await()
	j, ok := q.pop()
	q.mu.Unlock()
	unused[0].close()
	unused[1].close()
	return j, ok
}

// done notes that a job in d is done. The rules of a directory are not needed any more
// when all in it is done.
func (q *queue) done(d *dir) {
	for d.left--; d.left == 0 && d.parent != nil; d.left-- {
		d.rules.Release()
		d = d.parent
	}
}

// await waits until there is a job, or until none can come.
func (q *queue) await() {
	if len(q.jobs) > 0 {
		return
	}
	q.idle++
	for len(q.jobs) == 0 && q.busy > 0 && !q.stopped.Load() {
		q.count()
		q.more.Wait()
	}
	q.idle--
}

// pop takes the latest job.
func (q *queue) pop() (job, bool) {
	last := len(q.jobs) - 1
	if last < 0 || q.stopped.Load() {
		q.more.Broadcast()
		return job{}, false
	}
	j := q.jobs[last]
	q.jobs[last] = job{}
	q.jobs = q.jobs[:last]
	q.evicted = min(q.evicted, last)
	q.busy++
	q.count()
	if j.entries == nil && j.dir.parent != nil {
		j.from = q.above(j.dir)
	}
	return j, true
}

// above returns the nearest open directory above d, from which d is opened.
func (q *queue) above(d *dir) *dir {
	d.parent.pending--
	from := d.parent
	for !from.open {
		from = from.parent
	}
	from.pins++
	return from
}

// count brings hungry up to date.
func (q *queue) count() {
	if n := int32(max(0, q.idle-len(q.jobs))); n != q.hungry.Load() {
		q.hungry.Store(n)
	}
}

// add adds directories in d, which is open.
func (q *queue) add(d *dir, found []*dir) {
	q.mu.Lock()
	for _, child := range found {
		child.left = 1
		q.jobs = append(q.jobs, job{dir: child})
	}
	d.pending += len(found)
	d.left += len(found)
	if !d.counted {
		d.counted = true
		q.open++
		q.evict()
	}
	q.wake(len(found))
	q.mu.Unlock()
}

// share adds entries of d, whose handle stays open until they are visited.
func (q *queue) share(d *dir, entries []dirent) {
	q.mu.Lock()
	d.pins++
	d.left++
	q.jobs = append(q.jobs, job{dir: d, entries: entries})
	q.wake(1)
	q.mu.Unlock()
}

func (q *queue) wake(jobs int) {
	for range min(jobs, q.idle) {
		q.more.Signal()
	}
	q.count()
}

// unpin notes that a user of d's handle is done with it. After the last user it returns
// the handle, for the caller to close.
func (q *queue) unpin(d *dir) handle {
	if d == nil || !d.open {
		return noHandle
	}
	if d.pins--; d.pins > 0 || d.pending > 0 {
		return noHandle
	}
	return q.detach(d)
}

func (q *queue) detach(d *dir) handle {
	h := d.handle
	d.handle, d.open = noHandle, false
	if d.counted {
		q.open--
	}
	return h
}

// evict closes directories while too many are open, beginning with those whose
// jobs come last.
func (q *queue) evict() {
	for ; q.open > maxOpenDirs && q.evicted < len(q.jobs); q.evicted++ {
		d := q.jobs[q.evicted].dir.parent
		if d != nil && d.open && d.pins == 0 {
			q.detach(d).close()
		}
	}
}

// stop ends the walk, because of err if nothing else ended it before.
func (q *queue) stop(err error) {
	q.mu.Lock()
	if q.err == nil {
		q.err = err
	}
	q.stopped.Store(true)
	q.more.Broadcast()
	q.mu.Unlock()
}

// failure returns why the walk ended early.
func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// closeAll closes the directories that are still open when all workers are gone: the
// root, and those that the remaining jobs need.
func (q *queue) closeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		for _, d := range []*dir{j.dir, j.dir.parent} {
			if d != nil && d.open {
				q.detach(d).close()
			}
		}
	}
	if q.root.open {
		q.detach(q.root).close()
	}
}
