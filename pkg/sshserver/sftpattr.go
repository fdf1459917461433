package sshserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/sftp"

	"github.com/podagent/podagent/pkg/fsops"
)

// changes are what a client wants the attributes of a file to be. Nil leaves one as it is.
type changes struct {
	mode  *fs.FileMode
	times *[2]uint32 // of access and of modification, in seconds since 1970
	owner *[2]uint32 // user and group
	size  *int64
}

// changesOf returns what a request asks for. Attributes that end too early are not those that the client meant.
func changesOf(r *sftp.Request) (c changes, err error) {
	has, want := r.AttrFlags(), r.Attributes()
	if want == nil {
		return c, sftp.ErrSSHFxBadMessage
	}
	if has.Size && want.Size > math.MaxInt64 {
		return c, &fs.PathError{Op: "truncate", Path: r.Filepath, Err: syscall.EFBIG}
	}
	if has.Permissions {
		c.mode = new(want.FileMode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky))
	}
	if has.Acmodtime {
		c.times = &[2]uint32{want.Atime, want.Mtime}
	}
	if has.UidGid {
		c.owner = &[2]uint32{want.UID, want.GID}
	}
	if has.Size {
		c.size = new(int64(want.Size))
	}
	return c, nil
}

// permOfOpen returns the mode for a file that is opened, if that is all that the client says of its
// attributes, as OpenSSH's scp and sftp do; 0 is the usual one. Package sftp drops the flags that
// say which attributes there are, but no other one has four bytes.
func permOfOpen(r *sftp.Request) fs.FileMode {
	if len(r.Attrs) != 4 {
		return 0
	}
	return fs.FileMode(binary.BigEndian.Uint32(r.Attrs)).Perm()
}

// and returns the changes with later ones.
func (c changes) and(later changes) changes {
	if later.mode != nil {
		c.mode = later.mode
	}
	if later.times != nil {
		c.times = later.times
	}
	if later.owner != nil {
		c.owner = later.owner
	}
	return c
}

// in returns the attributes with these changes, but for the size.
func (c changes) in(attr fsops.Attr) fsops.Attr {
	if c.mode != nil {
		attr.Mode = *c.mode
	}
	if c.times != nil {
		attr.ModTime = time.Unix(int64(c.times[1]), 0)
	}
	if c.owner != nil {
		attr.UID, attr.GID = c.owner[0], c.owner[1]
	}
	return attr
}

// setAttributes changes the attributes of a file, or notes them for when it is in its place.
func (f *files) setAttributes(ctx context.Context, name string, c changes) error {
	if done, err := f.changePending(name, c); done {
		return err
	}
	return f.apply(ctx, name, c)
}

// apply changes the attributes of a file that is in its place. The times are last, because what
// is done before changes them.
func (f *files) apply(ctx context.Context, name string, c changes) error {
	if c.size != nil {
		if err := f.truncate(ctx, name, *c.size); err != nil {
			return err
		}
	}
	if c.owner != nil {
		if err := f.own(ctx, name, *c.owner); err != nil {
			return err
		}
	}
	if c.mode != nil {
		if err := f.client.Chmod(ctx, name, *c.mode); err != nil {
			return err
		}
	}
	if c.times == nil {
		return nil
	}
	return errors.Join(
		f.tool(ctx, "touch", name, "-c", "-m", "-d", "@"+strconv.FormatUint(uint64(c.times[1]), 10)),
		f.tool(ctx, "touch", name, "-c", "-a", "-d", "@"+strconv.FormatUint(uint64(c.times[0]), 10)))
}

// truncate sets the length of a file.
func (f *files) truncate(ctx context.Context, name string, size int64) error {
	attr, err := f.client.Stat(ctx, name)
	if err != nil || attr.Size == size {
		return err
	}
	s, err := f.newSpool(name, &attr, fsops.WriteOptions{})
	if err != nil {
		return err
	}
	defer s.drop()
	if err := s.truncate(size); err != nil {
		return err
	}
	return s.commit()
}

// own changes the owners, unless they are right.
func (f *files) own(ctx context.Context, name string, owner [2]uint32) error {
	if attr, err := f.client.Stat(ctx, name); err != nil || attr.UID == owner[0] && attr.GID == owner[1] {
		return err
	}
	return f.tool(ctx, "chown", name, fmt.Sprintf("%d:%d", owner[0], owner[1]))
}

// tool runs a program of the sandbox that changes the attributes of a file.
func (f *files) tool(ctx context.Context, program, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	c := f.client.Command(ctx, program, append(args, "--", name)...)
	c.Timeout = toolTime
	var said limited
	c.Stderr = &said
	err := c.Run()
	_ = f.client.Forget(ctx, c.ID) // keep it out of ps --all
	switch {
	case err == nil:
		return nil
	case bytes.Contains(said.text, []byte("not permitted")):
		return &fs.PathError{Op: program, Path: name, Err: fs.ErrPermission}
	}
	return &fs.PathError{Op: program, Path: name, Err: errors.New(plain(err.Error() + ": " + strings.TrimSpace(string(said.text))))}
}

// limited keeps the beginning of what a program says.
type limited struct{ text []byte }

func (l *limited) Write(p []byte) (int, error) {
	l.text = append(l.text, p[:min(len(p), maxReason-len(l.text))]...)
	return len(p), nil
}

// within reports whether a path is dir or below it. Both are clean.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(path.Clean(dir), "/")+"/")
}
