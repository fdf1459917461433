package sshserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/pkg/sftp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// sftp serves files until the client ends the session.
func (s *session) sftp(context.Context) {
	workdir, err := s.conn.server.workdir(s.run.gone)
	if err != nil {
		s.fail(statusTrouble, err)
		return
	}
	f := &files{conn: s.conn, client: s.conn.server.Sandbox, ctx: s.run.gone, workdir: workdir, handles: make(chan struct{}, maxHandles)}
	server := sftp.NewRequestServer(&messages{Channel: s.channel}, sftp.Handlers{FileGet: f, FilePut: f, FileCmd: f, FileList: f},
		sftp.WithStartDirectory(workdir), sftp.WithRSMaxTxPacket(maxRead))
	err = server.Serve()
	if err != nil && !errors.Is(err, io.EOF) {
		s.conn.server.log().Info("sftp ended", "why", err)
	}
	s.exit(podapi.ExitStatus{Reason: podapi.Exited})
}

// files translates sftp to podapi. What sftp knows and podapi does not, the sandbox's own programs
// do: owners, times and lengths.
type files struct {
	conn    *connection
	client  *podapi.Client
	ctx     context.Context // ends when the client has left
	workdir string
	handles chan struct{} // has an element for each open file and directory
	writing pendings      // what is not in its place yet
}

var errHandles = fmt.Errorf("this session has %d files open, and may not have more", maxHandles)

// hold takes one of the handles for a file, which release gives back.
func (f *files) hold(name string) error {
	select {
	case f.handles <- struct{}{}:
		return nil
	default:
		return &fs.PathError{Op: "open", Path: name, Err: errHandles}
	}
}

func (f *files) release() { <-f.handles }

// Filecmd implements sftp.FileCmder.
func (f *files) Filecmd(r *sftp.Request) error {
	ctx, name := r.Context(), r.Filepath
	switch r.Method {
	case "Setstat":
		c, err := changesOf(r)
		if err != nil {
			return err
		}
		return f.setAttributes(ctx, name, c)
	case "Rename":
		return f.client.RenameNoReplace(ctx, name, r.Target)
	case "Symlink":
		return f.client.Symlink(ctx, name, r.Target)
	case "Mkdir":
		return f.client.Mkdir(ctx, name, 0) // package sftp drops the mode
	case "Rmdir":
		return f.remove(ctx, name, true)
	case "Remove":
		return f.remove(ctx, name, false)
	}
	return sftp.ErrSSHFxOpUnsupported // hard links, of which podapi has none
}

// PosixRename implements sftp.PosixRenameFileCmder.
func (f *files) PosixRename(r *sftp.Request) error {
	return f.client.Rename(r.Context(), r.Filepath, r.Target)
}

// remove removes a directory, or anything else.
func (f *files) remove(ctx context.Context, name string, dir bool) error {
	attr, err := f.client.Lstat(ctx, name)
	switch {
	case err != nil:
		return err
	case dir && !attr.IsDir():
		return &fs.PathError{Op: "rmdir", Path: name, Err: syscall.ENOTDIR}
	case !dir && attr.IsDir():
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.EISDIR}
	}
	return f.client.Remove(ctx, name)
}

// StatVFS implements sftp.StatVFSFileCmder. podapi knows the file system of the workdir alone.
func (f *files) StatVFS(r *sftp.Request) (*sftp.StatVFS, error) {
	if !within(r.Filepath, f.workdir) {
		return nil, sftp.ErrSSHFxOpUnsupported
	}
	stats, err := f.client.Stats(r.Context())
	if err != nil {
		return nil, err
	}
	if stats.DiskSize == nil || stats.DiskAvailable == nil || stats.DiskUsed == nil {
		return nil, sftp.ErrSSHFxOpUnsupported
	}
	const block = 4096
	v := &sftp.StatVFS{
		Bsize: block, Frsize: block, Namemax: 255, Blocks: uint64(*stats.DiskSize) / block,
		Bfree: uint64(max(*stats.DiskSize-*stats.DiskUsed, 0)) / block, Bavail: uint64(*stats.DiskAvailable) / block,
	}
	if stats.Inodes != nil && stats.InodesUsed != nil {
		v.Files, v.Ffree = uint64(*stats.Inodes), uint64(max(*stats.Inodes-*stats.InodesUsed, 0))
		v.Favail = v.Ffree
	}
	return v, nil
}

// Filelist implements sftp.FileLister, for directories and for files.
func (f *files) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method == "List" {
		return f.list(r.Filepath)
	}
	return f.describe(r, f.client.Stat)
}

// Lstat implements sftp.LstatFileLister.
func (f *files) Lstat(r *sftp.Request) (sftp.ListerAt, error) {
	return f.describe(r, f.client.Lstat)
}

// Readlink implements sftp.ReadlinkFileLister.
func (f *files) Readlink(name string) (string, error) { return f.client.Readlink(f.ctx, name) }

// describe describes one file. One that this client writes is as long as what it has written.
func (f *files) describe(r *sftp.Request, stat func(context.Context, string) (fsops.Attr, error)) (sftp.ListerAt, error) {
	if info := f.describePending(r.Filepath); info != nil {
		return one{info}, nil
	}
	attr, err := stat(r.Context(), r.Filepath)
	if err != nil {
		return nil, err
	}
	return one{info{attr.FileInfo(), attr}}, nil
}

// info describes a file with its owners.
type info struct {
	fs.FileInfo
	attr fsops.Attr
}

var _ sftp.FileInfoUidGid = info{}

func (i info) Uid() uint32 { return i.attr.UID }
func (i info) Gid() uint32 { return i.attr.GID }

// one is a list of one file.
type one struct{ fs.FileInfo }

func (o one) ListAt(list []fs.FileInfo, offset int64) (int, error) {
	if offset > 0 || len(list) == 0 {
		return 0, io.EOF
	}
	list[0] = o.FileInfo
	return 1, io.EOF
}
