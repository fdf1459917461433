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

// Stat describes a file, following symbolic links.
func (c *Client) Stat(ctx context.Context, name string) (fsops.Attr, error) {
	return c.stat(ctx, "stat", &pb.StatRequest{Path: []byte(name)})
}

// Lstat describes a file, or the symbolic link that it is.
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

// List returns the entries of a directory, sorted by name, as [fsops.FS.List] does.
// An error is the last value. If directories below it could not be read, that is a
// *[fsops.SkippedError].
func (c *Client) List(ctx context.Context, name string, opts fsops.ListOptions) iter.Seq2[fsops.Attr, error] {
	request := &pb.ListRequest{Path: []byte(name), Recursive: opts.Recursive}
	return func(yield func(fsops.Attr, error) bool) {
		var skipped fsops.SkippedError
		err := eachMessage(receive(ctx, request, c.files.List), func(r *pb.ListResponse) error {
			if end := r.GetEnd(); end != nil {
				return allSkipped(&skipped, end.Skipped)
			}
			if e := r.GetUnreadable(); e != nil {
				skipped.Add(wire.DecodeError(e))
			}
			for _, a := range r.GetBatch().GetAttrs() {
				if !yield(attrFromProto(a), nil) {
					return errLoopLeft
				}
			}
			return nil
		})
		endResults(yield, pathError("readdir", name, err))
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

// Read writes a range of a file to w as it arrives, also a part when it fails.
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

// ReadLines returns a window of a file's lines. Only the window travels.
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

// WriteFile makes or replaces a file, atomically. perm is the mode of a new file
// before the umask (0 means 0o666); an existing one keeps its mode.
func (c *Client) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	_, err := c.Write(ctx, name, bytes.NewReader(data), fsops.WriteOptions{Perm: perm})
	return err
}

// Write is WriteFile for all that r reads, with options, and a result that says how
// it went. When r fails, the file stays as it was.
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

// Edit replaces texts in a file as one atomic step. A text that must occur once,
// and does not, is an *[fsops.EditError].
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

// MkdirAll is Mkdir, but makes missing parents, too, with the same mode. A directory
// that exists is no error.
func (c *Client) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	return c.mkdir(ctx, &pb.MkdirRequest{Path: []byte(name), Perm: uint32(perm), Parents: true})
}

func (c *Client) mkdir(ctx context.Context, request *pb.MkdirRequest) error {
	_, err := c.files.Mkdir(ctx, request)
	return pathError("mkdir", string(request.Path), err)
}

// Remove removes a file, a symbolic link or an empty directory; another directory is
// syscall.ENOTEMPTY.
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
