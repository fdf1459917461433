package podapi

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"iter"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Stat describes a file, following symbolic links.
func (c *Client) Stat(ctx context.Context, name string) (fsops.Attr, error) {
	return c.stat(ctx, "stat", &pb.StatRequest{Path: []byte(name)})
}

// Lstat describes a file. It does not follow a symbolic link.
func (c *Client) Lstat(ctx context.Context, name string) (fsops.Attr, error) {
	return c.stat(ctx, "lstat", &pb.StatRequest{Path: []byte(name), Nofollow: true})
}

func (c *Client) stat(ctx context.Context, op string, request *pb.StatRequest) (fsops.Attr, error) {
	r, err := c.files.Stat(ctx, request)
	if err != nil {
		return fsops.Attr{}, pathError(op, string(request.Path), err)
	}
	attr, err := attrFromProto(r.Attr)
	attr.Path = string(request.Path)
	return attr, pathError(op, attr.Path, err)
}

// Readlink returns the target of a symbolic link, unresolved. For another file the
// error is of class EINVAL.
func (c *Client) Readlink(ctx context.Context, name string) (string, error) {
	attr, err := c.stat(ctx, "readlink", &pb.StatRequest{Path: []byte(name), Nofollow: true})
	if err == nil && attr.Mode.Type() != fs.ModeSymlink {
		err = pathError("readlink", name, syscall.EINVAL)
	}
	return attr.Target, err
}

// ReadDir returns the entries of a directory, sorted by name, also those before an error.
// More than 262144, or 32 MiB of names, are syscall.EFBIG: List has no bound.
func (c *Client) ReadDir(ctx context.Context, name string) ([]fsops.Attr, error) {
	var entries []fsops.Attr
	held := listBudget{most: maxEntries}
	for attr, err := range c.List(ctx, name, fsops.ListOptions{}) {
		if err == nil && !held.take(len(attr.Path)+len(attr.Target)+len(attr.ETag)) {
			err = pathError("readdir", name, syscall.EFBIG)
		}
		if err != nil {
			return entries, err
		}
		entries = append(entries, attr)
	}
	return entries, nil
}

// A listBudget bounds the memory of a list.
type listBudget struct{ most, entries, texts int }

// take reports whether there is room for another entry, with so many bytes of texts.
func (b *listBudget) take(texts int) bool {
	b.entries++
	b.texts += texts
	return b.entries <= b.most && b.texts <= maxListTexts
}

// List returns a directory's entries, sorted by name, as [fsops.FS.List] does.
func (c *Client) List(ctx context.Context, name string, opts fsops.ListOptions) iter.Seq2[fsops.Attr, error] {
	request := &pb.ListRequest{Path: []byte(name), Recursive: opts.Recursive}
	return func(yield func(fsops.Attr, error) bool) {
		var skipped fsops.SkippedError
		var idle idleMessages
		var count int64
		err := eachMessage(receive(ctx, request, c.files.List), func(r *pb.ListResponse) error {
			attrs := r.GetBatch().GetAttrs()
			switch end, e := r.GetEnd(), r.GetUnreadable(); {
			case end != nil && end.Count != count:
				return protocolError("%d entries, and not the %d of the list", count, end.Count)
			case end != nil:
				return allSkipped(&skipped, end.Skipped)
			case e != nil:
				return addSkipped(&skipped, "readdir", name, skippedReason(e))
			case len(attrs) == 0:
				return idle.add()
			}
			for _, a := range attrs {
				attr, err := attrFromProto(a)
				if err = firstError(err, checkEntry(name, opts.Recursive, attr.Path)); err != nil {
					return err
				}
				if count++; !yield(attr, nil) {
					return errLoopLeft
				}
			}
			return nil
		})
		endResults(yield, pathError("readdir", name, err))
	}
}

// WriteFile makes or replaces a file, atomically. perm is the mode of a new file
// before the umask (0 means 0o666); an existing one keeps its mode.
func (c *Client) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	_, err := c.Write(ctx, name, bytes.NewReader(data), fsops.WriteOptions{Perm: perm})
	return err
}

// Write is WriteFile for all that r reads, with options and a result. If r fails,
// the file is unchanged.
func (c *Client) Write(ctx context.Context, name string, r io.Reader, opts fsops.WriteOptions) (fsops.WriteResult, error) {
	w, err := c.Create(ctx, name, opts)
	if err != nil {
		return fsops.WriteResult{}, err
	}
	defer w.Close()
	if _, err := io.Copy(w, r); err != nil { // needs no buffer if r has its content in memory
		return fsops.WriteResult{}, err
	}
	return w.Commit()
}

// Edit replaces texts in a file as one atomic step. If a text that must occur once
// does not, the error is an *[fsops.EditError].
func (c *Client) Edit(ctx context.Context, name string, edits []fsops.Edit, opts fsops.EditOptions) (fsops.EditResult, error) {
	request := &pb.EditRequest{Path: []byte(name), IfMatch: opts.IfMatch}
	for _, e := range edits {
		request.Edits = append(request.Edits, &pb.Replacement{Old: e.Old, New: e.New, All: e.All})
	}
	r, err := c.files.Edit(ctx, request)
	if err != nil {
		return fsops.EditResult{}, pathError("edit", name, err)
	}
	result, err := editResultFromProto(edits, r)
	return result, pathError("edit", name, err)
}

func editResultFromProto(edits []fsops.Edit, r *pb.EditResponse) (fsops.EditResult, error) {
	if len(r.Occurrences) != len(edits) || len(r.Diff) > maxDiff {
		return fsops.EditResult{}, protocolError("%d edits for %d, in a diff of %d bytes", len(r.Occurrences), len(edits), len(r.Diff))
	}
	result := fsops.EditResult{Diff: r.Diff, DiffTruncated: r.DiffTruncated}
	for i, n := range r.Occurrences {
		if n < 1 || n > fsops.MaxEditSize || n > 1 && !edits[i].All {
			return fsops.EditResult{}, protocolError("a text that was replaced %d times", n)
		}
		result.Occurrences = append(result.Occurrences, int(n))
	}
	var err error
	result.Write, err = writeResultFromProto(r.Write)
	return result, err
}

func writeResultFromProto(r *pb.WriteResponse) (fsops.WriteResult, error) {
	attr, err := attrFromProto(r.GetAttr())
	return fsops.WriteResult{Attr: attr, Created: r.GetCreated(), InPlace: r.GetInPlace()}, err
}

// Mkdir makes a directory. perm is its mode before the umask; 0 means 0o777.
func (c *Client) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return c.mkdir(ctx, &pb.MkdirRequest{Path: []byte(name), Perm: uint32(perm)})
}

// MkdirAll is Mkdir, but makes missing parents, too, with the same mode. A directory
// that exists is no error.
func (c *Client) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	return c.mkdir(ctx, &pb.MkdirRequest{Path: []byte(name), Perm: uint32(perm), Parents: true})
}

func (c *Client) mkdir(ctx context.Context, request *pb.MkdirRequest) error {
	_, err := c.files.Mkdir(ctx, request)
	return pathError("mkdir", string(request.Path), err)
}

// Remove removes a file, a link or an empty directory, else syscall.ENOTEMPTY.
func (c *Client) Remove(ctx context.Context, name string) error {
	return c.remove(ctx, &pb.RemoveRequest{Path: []byte(name)})
}

// RemoveAll removes a file, or a directory with all that is in it, and no targets of
// symbolic links. It removes what it can; the error names the first entry that it
// cannot. A name that does not exist is no error.
func (c *Client) RemoveAll(ctx context.Context, name string) error {
	return c.remove(ctx, &pb.RemoveRequest{Path: []byte(name), Recursive: true, Force: true})
}

func (c *Client) remove(ctx context.Context, request *pb.RemoveRequest) error {
	_, err := c.files.Remove(ctx, request)
	return pathError("remove", string(request.Path), err)
}

// Rename renames a file or a directory within its file system (else syscall.EXDEV).
// It replaces a file of the new name, but no directory.
func (c *Client) Rename(ctx context.Context, oldName, newName string) error {
	return c.rename(ctx, &pb.RenameRequest{OldPath: []byte(oldName), NewPath: []byte(newName)})
}

// RenameNoReplace is Rename, but fails with fs.ErrExist if the new name exists, also
// when another call makes it at the same time.
func (c *Client) RenameNoReplace(ctx context.Context, oldName, newName string) error {
	return c.rename(ctx, &pb.RenameRequest{OldPath: []byte(oldName), NewPath: []byte(newName), NoReplace: true})
}

func (c *Client) rename(ctx context.Context, request *pb.RenameRequest) error {
	_, err := c.files.Rename(ctx, request)
	return pathError("rename", string(request.OldPath), err)
}

// Copy copies a file, or with opts.Recursive a tree, within the sandbox.
func (c *Client) Copy(ctx context.Context, source, target string, opts fsops.CopyOptions) error {
	_, err := c.files.Copy(ctx, &pb.CopyRequest{Source: []byte(source), Target: []byte(target), Recursive: opts.Recursive, NoReplace: opts.NoReplace})
	return pathError("copy", source, err)
}

// Symlink makes newName a symbolic link to oldName, which need not exist.
func (c *Client) Symlink(ctx context.Context, oldName, newName string) error {
	_, err := c.files.Symlink(ctx, &pb.SymlinkRequest{Target: []byte(oldName), Path: []byte(newName)})
	return pathError("symlink", newName, err)
}

// Chmod sets the permission, set-id and sticky bits of a file, following symbolic
// links. The umask does not apply.
func (c *Client) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	_, err := c.files.Chmod(ctx, &pb.ChmodRequest{Path: []byte(name), Mode: uint32(mode)})
	return pathError("chmod", name, err)
}
