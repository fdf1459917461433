package podapi

import (
	"context"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
)

// FS returns the tree below dir as an fs.FS that is also an fs.StatFS,
// fs.ReadDirFS, fs.ReadFileFS and fs.ReadLinkFS. ctx is for all its calls. Symbolic
// links are followed as by os.DirFS, also out of dir.
func (c *Client) FS(ctx context.Context, dir string) fs.FS {
	return &tree{client: c, ctx: ctx, dir: dir}
}

type tree struct {
	client *Client
	ctx    context.Context
	dir    string
}

var (
	_ fs.StatFS     = (*tree)(nil)
	_ fs.ReadDirFS  = (*tree)(nil)
	_ fs.ReadFileFS = (*tree)(nil)
	_ fs.ReadLinkFS = (*tree)(nil)
)

// in returns the sandbox's name for the tree's name.
func (t *tree) in(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(t.dir, name), nil
}

// out returns an error with the tree's name for the path.
func out(name string, err error) error {
	if pathErr, ok := err.(*fs.PathError); ok {
		return &fs.PathError{Op: pathErr.Op, Path: name, Err: pathErr.Err}
	}
	return err
}

func (t *tree) Open(name string) (fs.File, error) {
	full, err := t.in("open", name)
	if err != nil {
		return nil, err
	}
	attr, err := t.client.Stat(t.ctx, full)
	if err != nil {
		return nil, out(name, err)
	}
	if attr.IsDir() {
		return &treeDir{tree: t, name: name, attr: attr}, nil
	}
	return &File{client: t.client, ctx: t.ctx, attr: attr}, nil
}

func (t *tree) Stat(name string) (fs.FileInfo, error) {
	return t.info("stat", name, t.client.Stat)
}

func (t *tree) Lstat(name string) (fs.FileInfo, error) {
	return t.info("lstat", name, t.client.Lstat)
}

func (t *tree) info(op, name string, stat func(context.Context, string) (fsops.Attr, error)) (fs.FileInfo, error) {
	full, err := t.in(op, name)
	if err != nil {
		return nil, err
	}
	attr, err := stat(t.ctx, full)
	if err != nil {
		return nil, out(name, err)
	}
	attr.Path = name
	return attr.FileInfo(), nil
}

func (t *tree) ReadLink(name string) (string, error) {
	info, err := t.info("readlink", name, t.client.Lstat)
	if err != nil {
		return "", err
	}
	if info.Mode().Type() != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: syscall.EINVAL}
	}
	return info.Sys().(fsops.Attr).Target, nil
}

func (t *tree) ReadFile(name string) ([]byte, error) {
	full, err := t.in("read", name)
	if err != nil {
		return nil, err
	}
	data, err := t.client.ReadFile(t.ctx, full)
	return data, out(name, err)
}

func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := t.in("readdir", name)
	if err != nil {
		return nil, err
	}
	entries := []fs.DirEntry{}
	attrs, err := t.client.ReadDir(t.ctx, full)
	for _, attr := range attrs {
		entries = append(entries, fs.FileInfoToDirEntry(attr.FileInfo()))
	}
	return entries, out(name, err)
}

// treeDir is an open directory of a tree.
type treeDir struct {
	tree    *tree
	name    string
	attr    fsops.Attr
	entries []fs.DirEntry // what ReadDir has not returned yet
	read    bool
	closed  bool
}

func (d *treeDir) Stat() (fs.FileInfo, error) {
	attr := d.attr
	attr.Path = d.name
	return attr.FileInfo(), nil
}

func (d *treeDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: syscall.EISDIR}
}

func (d *treeDir) Close() error {
	d.closed = true
	return nil
}

func (d *treeDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.closed {
		return nil, &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrClosed}
	}
	if !d.read {
		entries, err := d.tree.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.entries, d.read = entries, true
	}
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	head := d.entries[:n]
	d.entries = d.entries[n:]
	return head, nil
}
