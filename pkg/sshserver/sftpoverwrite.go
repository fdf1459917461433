package sshserver

import (
	"sync"

	"github.com/podagent/podagent/pkg/fsops"
)

// overwrite is a file that exists and that a client opened for writing alone, without cutting it. OpenSSH's
// scp does that to replace a file of any length: it writes from the beginning to the end, and then
// sets the length. Others change it in places. So the content goes to the sandbox as it comes, and what is
// not written follows at the end. What was sent is also kept here: once the client writes elsewhere, the file
// becomes a spool.
type overwrite struct {
	files *files
	name  string
	old   fsops.Attr
	opts  fsops.WriteOptions

	mu     sync.Mutex
	stream *stream // nil once it has become a spool
	spool  *spool  // the file, or what the stream has; nil if that is too long, or there is no room
	why    error   // why spool is nil
	cut    bool    // the old content counts no more
}

func (f *files) newOverwrite(name string, old fsops.Attr, opts fsops.WriteOptions) (*overwrite, error) {
	opts.IfMatch = old.ETag
	s, err := f.newStream(name, opts)
	if err != nil {
		return nil, err
	}
	kept, why := f.newSpool(name, nil, opts)
	return &overwrite{files: f, name: name, old: old, opts: opts, stream: s, spool: kept, why: why}, nil
}

func (o *overwrite) WriteAt(p []byte, offset int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream != nil && !o.stream.takes(p, offset) {
		if err := o.becomeSpool(); err != nil {
			return 0, err
		}
	}
	if o.stream == nil {
		return o.spool.WriteAt(p, offset)
	}
	n, err := o.stream.WriteAt(p, offset)
	if err != nil || o.spool == nil {
		return n, err
	}
	if _, keptErr := o.spool.WriteAt(p, offset); keptErr != nil { // it is too long, or there is no room here
		o.spool.drop()
		o.spool, o.why = nil, keptErr
	}
	return n, nil
}

// becomeSpool is called with mu. It fetches the file, with what was written in its place.
func (o *overwrite) becomeSpool() error {
	if o.spool == nil {
		return o.why
	}
	old := &o.old
	if o.cut {
		old = nil
	}
	s, err := o.files.newSpool(o.name, old, o.opts)
	if err != nil {
		return err
	}
	if err := o.stream.copyTo(s, o.spool); err != nil {
		s.drop()
		return err
	}
	o.stream.drop()
	o.spool.drop()
	o.stream, o.spool = nil, s
	return nil
}

func (o *overwrite) length() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.stream == nil:
		return o.spool.length()
	case o.cut:
		return o.stream.length()
	}
	return max(o.stream.length(), o.old.Size)
}

func (o *overwrite) truncate(size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream != nil && size == o.stream.length() {
		o.cut = true
		return nil
	}
	if o.stream != nil {
		if err := o.becomeSpool(); err != nil {
			return err
		}
	}
	return o.spool.truncate(size)
}

func (o *overwrite) commit() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream != nil && o.stream.waits() {
		if err := o.becomeSpool(); err != nil {
			return err
		}
	}
	switch {
	case o.stream == nil:
		return o.spool.commit()
	case o.cut || o.stream.length() >= o.old.Size:
		return o.stream.commit()
	case o.stream.length() == 0:
		return nil // nothing was written
	}
	rest := fsops.ReadOptions{Offset: o.stream.length()}
	if _, err := o.files.client.Read(o.files.ctx, o.name, o.stream, rest); err != nil {
		return err
	}
	return o.stream.commit() // which fails if the file has changed meanwhile
}

func (o *overwrite) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream != nil {
		o.stream.drop()
	}
	if o.spool != nil {
		o.spool.drop()
	}
}
