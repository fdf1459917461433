package tools

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// keptOutputs are the files in which a session keeps whole outputs, redacted, in
// its sandbox. They are in a directory of their own, readable only by the user.
type keptOutputs struct {
	sandbox *launcher.Sandbox
	parent  string

	mu    sync.Mutex
	dir   string // empty until it is created
	last  int    // the number of the last file
	files []string
}

func newKeptOutputs(sandbox *launcher.Sandbox, parent string) *keptOutputs {
	if parent == "" {
		parent = temporaryDir
	}
	return &keptOutputs{sandbox: sandbox, parent: parent}
}

// begin begins a file. If that fails, its end says so.
func (k *keptOutputs) begin(ctx context.Context) *keptOutput {
	if k == nil {
		return &keptOutput{err: errors.New("there is no session")}
	}
	o := &keptOutput{all: k}
	if o.path, o.err = k.name(ctx); o.err == nil {
		// A command may have removed the directory meanwhile.
		o.file, o.err = k.sandbox.Create(ctx, o.path, fsops.WriteOptions{Perm: 0o600, Exclusive: true, Parents: true})
	}
	return o
}

// name returns the path of the next file. The first call creates the directory.
func (k *keptOutputs) name(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dir == "" {
		dir := path.Join(k.parent, "podagent-"+strings.ToLower(rand.Text()[:12]))
		if err := k.sandbox.Mkdir(ctx, dir, 0o700); err != nil {
			return "", err
		}
		k.dir = dir
	}
	k.last++
	return path.Join(k.dir, fmt.Sprintf("output-%d.txt", k.last)), nil
}

// add records a file, and removes the oldest when there are too many.
func (k *keptOutputs) add(ctx context.Context, file string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files = append(k.files, file)
	for len(k.files) > keptFiles {
		// If this fails, the file is removed with the directory.
		_ = k.sandbox.Remove(ctx, k.files[0])
		k.files = k.files[1:]
	}
}

// remove removes the directory, if it was created.
func (k *keptOutputs) remove(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dir == "" {
		return nil
	}
	err := k.sandbox.RemoveAll(ctx, k.dir)
	if err == nil {
		k.dir, k.files = "", nil
	}
	return err
}

// keptOutput is one file while it is written.
type keptOutput struct {
	all  *keptOutputs
	path string
	file *podapi.Writer
	size int
	full bool
	err  error
}

// write adds to the file up to MaxKept.
func (o *keptOutput) write(p []byte) {
	if n := MaxKept - o.size; len(p) > n {
		p, o.full = p[:n], true
	}
	if o.err != nil || len(p) == 0 {
		return
	}
	o.size += len(p)
	_, o.err = o.file.Write(p)
}

// discard removes the unfinished file. It does nothing after a commit.
func (o *keptOutput) discard() {
	if o.file != nil {
		_ = o.file.Close() // it drops data that was not committed
	}
}

// end commits the file, and says where the whole output is.
func (o *keptOutput) end(ctx context.Context) string {
	defer o.discard()
	if o.err == nil {
		_, o.err = o.file.Commit()
	}
	if o.err != nil {
		return fmt.Sprintf("the whole output could not be kept: %v", o.err)
	}
	o.all.add(ctx, o.path)
	if o.full {
		return fmt.Sprintf("the first %d MiB of the output are in %s, which you can read in parts with Read", MaxKept>>20, o.path)
	}
	return fmt.Sprintf("the whole output is in %s, which you can read in parts with Read", o.path)
}
