package podapi

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"iter"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Stat describes the file of that name, following symbolic links.
func (c *Client) Stat(ctx context.Context, name string) (fsops.Attr, error) {
	return c.stat(ctx, "stat", &pb.StatRequest{Path: []byte(name)})
}

// Lstat describes the file of that name, or the symbolic link that it is.
func (c *Client) Lstat(ctx context.Context, name string) (fsops.Attr, error) {
	return c.stat(ctx, "lstat", &pb.StatRequest{Path: []byte(name), Nofollow: true})
}

func (c *Client) stat(ctx context.Context, op string, request *pb.StatRequest) (fsops.Attr, error) {
	r, err := c.files.Stat(ctx, request)
	if err != nil {
		return fsops.Attr{}, pathError(op, string(request.Path), err)
	}
	return attrFromProto(r.Attr), nil
}

// List returns the entries of a directory, sorted by name. With
// opts.Recursive a directory below it that cannot be read is an
// *[fsops.SkippedError], after which the loop goes on.
func (c *Client) List(ctx context.Context, name string, opts fsops.ListOptions) iter.Seq2[fsops.Attr, error] {
	request := &pb.ListRequest{Path: []byte(name), Recursive: opts.Recursive}
	return func(yield func(fsops.Attr, error) bool) {
		for r, err := range receive(ctx, request, c.files.List) {
			if err != nil {
				yield(fsops.Attr{}, pathError("readdir", name, err))
				return
			}
			if r.GetEnd() != nil {
				return
			}
			if e := r.GetUnreadable(); e != nil && !yield(fsops.Attr{}, &fsops.SkippedError{Err: wire.DecodeError(e)}) {
				return
			}
			for _, a := range r.GetBatch().GetAttrs() {
				if !yield(attrFromProto(a), nil) {
					return
				}
			}
		}
	}
}

// ReadFile returns the content of a file.
func (c *Client) ReadFile(ctx context.Context, name string) ([]byte, error) {
	var data []byte
	_, err := c.read(ctx, &pb.ReadRequest{Path: []byte(name)}, func(r *pb.ReadResponse) error {
		if size := r.GetHeader().GetAttr().GetSize(); data == nil && size > 0 && size < maxReserve {
			data = make([]byte, 0, size)
		}
		data = append(data, r.GetData()...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// Read writes a range of a file to w as it arrives. When it fails, w may have
// got a part of it.
func (c *Client) Read(ctx context.Context, name string, opts fsops.ReadOptions, w io.Writer) (fsops.ReadResult, error) {
	request := &pb.ReadRequest{Path: []byte(name), Offset: opts.Offset, Length: opts.Length}
	var result fsops.ReadResult
	end, err := c.read(ctx, request, func(r *pb.ReadResponse) error {
		if h := r.GetHeader(); h != nil {
			result.Attr = attrFromProto(h.Attr)
			if opts.Opened != nil {
				return opts.Opened(result.Attr)
			}
		}
		_, err := w.Write(r.GetData())
		return err
	})
	result.Sum = sumFromProto(end.GetSum())
	return result, err
}

// ReadLines returns a window of a file's lines; only that travels.
func (c *Client) ReadLines(ctx context.Context, name string, opts fsops.LineOptions) (fsops.Lines, error) {
	request := &pb.ReadRequest{Path: []byte(name), Lines: &pb.LineWindow{First: opts.First, Max: opts.Max, MaxBytes: opts.MaxBytes}}
	var lines fsops.Lines
	end, err := c.read(ctx, request, func(r *pb.ReadResponse) error {
		if h := r.GetHeader(); h != nil {
			lines.Attr = attrFromProto(h.Attr)
		}
		lines.Text = append(lines.Text, r.GetData()...)
		return nil
	})
	if err != nil {
		return fsops.Lines{}, err
	}
	l := end.GetLines()
	lines.First, lines.Count, lines.Total = l.GetFirst(), l.GetCount(), l.GetTotal()
	lines.Truncated, lines.CutLine = l.GetTruncated(), l.GetCutLine()
	return lines, nil
}

// read hands the messages of a Read call to take, and checks their sum.
func (c *Client) read(ctx context.Context, request *pb.ReadRequest, take func(*pb.ReadResponse) error) (*pb.ReadEnd, error) {
	name := string(request.Path)
	var sum fsops.Sum
	for r, err := range receive(ctx, request, c.files.Read) {
		if err != nil {
			return nil, pathError("read", name, err)
		}
		if end := r.GetEnd(); end != nil {
			return end, pathError("read", name, sum.Check(sumFromProto(end.Sum)))
		}
		sum.Add(r.GetData())
		if err := take(r); err != nil {
			return nil, err
		}
	}
	return nil, pathError("read", name, ErrCut)
}

// WriteFile makes a file with this content, or replaces that of an existing one,
// which keeps its mode: at once and whole. perm is the mode of a new file before the
// umask; 0 means 0o666.
func (c *Client) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	_, err := c.Write(ctx, name, bytes.NewReader(data), fsops.WriteOptions{Perm: perm})
	return err
}

// Write makes or replaces a file with all of r, as [Client.WriteFile] does and as
// opts says. When it fails, an error of r among the reasons, the file is as it was.
func (c *Client) Write(ctx context.Context, name string, r io.Reader, opts fsops.WriteOptions) (fsops.WriteResult, error) {
	w, err := c.Create(ctx, name, opts)
	if err != nil {
		return fsops.WriteResult{}, err
	}
	defer w.Close()
	if _, err := io.Copy(w, r); err != nil { // without a buffer where r has its content in memory
		return fsops.WriteResult{}, err
	}
	return w.Commit()
}

// Edit replaces texts in a file as one atomic step. A text that does not
// occur exactly once, where it must, is an *[fsops.EditError].
func (c *Client) Edit(ctx context.Context, name string, edits []fsops.Edit, opts fsops.EditOptions) (fsops.EditResult, error) {
	request := &pb.EditRequest{Path: []byte(name), IfMatch: opts.IfMatch}
	for _, e := range edits {
		request.Edits = append(request.Edits, &pb.Replacement{Old: e.Old, New: e.New, All: e.All})
	}
	r, err := c.files.Edit(ctx, request)
	if err != nil {
		return fsops.EditResult{}, pathError("edit", name, err)
	}
	result := fsops.EditResult{Diff: r.Diff, DiffTruncated: r.DiffTruncated, Write: writeResultFromProto(r.Write)}
	for _, n := range r.Occurrences {
		result.Occurrences = append(result.Occurrences, int(n))
	}
	return result, nil
}

func writeResultFromProto(r *pb.WriteResponse) fsops.WriteResult {
	return fsops.WriteResult{Attr: attrFromProto(r.GetAttr()), Created: r.GetCreated(), InPlace: r.GetInPlace()}
}

// Mkdir makes a directory. perm is its mode before the umask; 0 means 0o777.
func (c *Client) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return c.mkdir(ctx, &pb.MkdirRequest{Path: []byte(name), Perm: uint32(perm)})
}

// MkdirAll makes a directory as [Client.Mkdir] does, and its missing parents with
// mode 0o777 before the umask. A directory that is there already is no error.
func (c *Client) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	return c.mkdir(ctx, &pb.MkdirRequest{Path: []byte(name), Perm: uint32(perm), Parents: true})
}

func (c *Client) mkdir(ctx context.Context, request *pb.MkdirRequest) error {
	_, err := c.files.Mkdir(ctx, request)
	return pathError("mkdir", string(request.Path), err)
}

// Remove removes a file, a symbolic link or an empty directory (syscall.ENOTEMPTY
// if it is not).
func (c *Client) Remove(ctx context.Context, name string) error {
	return c.remove(ctx, &pb.RemoveRequest{Path: []byte(name)})
}

// RemoveAll removes a file, or a directory with all that is in it; it does not
// follow symbolic links. That there is nothing is no error. When something cannot be
// removed, the rest is, and the error names the first.
func (c *Client) RemoveAll(ctx context.Context, name string) error {
	return c.remove(ctx, &pb.RemoveRequest{Path: []byte(name), Recursive: true, Force: true})
}

func (c *Client) remove(ctx context.Context, request *pb.RemoveRequest) error {
	_, err := c.files.Remove(ctx, request)
	return pathError("remove", string(request.Path), err)
}

// Rename renames a file or a directory within its file system (syscall.EXDEV
// otherwise), in place of a file that has the new name.
func (c *Client) Rename(ctx context.Context, oldName, newName string) error {
	return c.rename(ctx, &pb.RenameRequest{OldPath: []byte(oldName), NewPath: []byte(newName)})
}

// RenameNoReplace is Rename, but fails with fs.ErrExist where there is something of
// the new name. It is atomic: of two callers with one new name, one succeeds.
func (c *Client) RenameNoReplace(ctx context.Context, oldName, newName string) error {
	return c.rename(ctx, &pb.RenameRequest{OldPath: []byte(oldName), NewPath: []byte(newName), NoReplace: true})
}

func (c *Client) rename(ctx context.Context, request *pb.RenameRequest) error {
	_, err := c.files.Rename(ctx, request)
	return pathError("rename", string(request.OldPath), err)
}

// Copy copies a file, or with opts.Recursive a tree, inside the sandbox.
func (c *Client) Copy(ctx context.Context, source, target string, opts fsops.CopyOptions) error {
	_, err := c.files.Copy(ctx, &pb.CopyRequest{Source: []byte(source), Target: []byte(target), Recursive: opts.Recursive, NoReplace: opts.NoReplace})
	return pathError("copy", source, err)
}

// Symlink makes newName a symbolic link that says oldName, which need not exist.
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
