package sessionstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops"
)

// Disk keeps snapshots as files in a directory, for the hosts of one user on one
// machine. Each session has a file that only this user can read. All hosts share
// one lock file. Save replaces a file atomically, and syncs it to the disk before
// it returns; so does Delete with the removal. Save fails if it could only
// overwrite the file in place, such as in a directory that takes no new files. A
// host that is killed leaves nothing behind, or a temporary file on platforms
// without unnamed files.
//
// Use a local disk: between machines the lock works only if their shared file
// system supports locks.
type Disk struct {
	// Dir is the directory. The first Save creates it, for its owner only. An
	// existing one must not be writable by others. Without a Dir, all methods fail
	// with fs.ErrInvalid.
	Dir string
}

var _ Store = (*Disk)(nil)

// header is the line in front of a snapshot.
type header struct {
	Session string `json:"session"`
	Version string `json:"version"`
	// SHA256 is the checksum of the snapshot.
	SHA256 string `json:"sha256"`
}

// Load implements [Store].
func (d *Disk) Load(ctx context.Context, id string) (Snapshot, error) {
	s, err := d.load(ctx, id)
	return s, wrap("load", id, err)
}

// check returns why a call cannot work.
func (d *Disk) check(ctx context.Context, id string, data []byte) error {
	if d.Dir == "" {
		return fmt.Errorf("a store on disk needs a directory: %w", fs.ErrInvalid)
	}
	return errors.Join(ctx.Err(), check(id, data))
}

func (d *Disk) load(ctx context.Context, id string) (Snapshot, error) {
	if err := d.check(ctx, id, nil); err != nil {
		return Snapshot{}, err
	}
	content, err := os.ReadFile(d.file(id))
	if err != nil {
		return Snapshot{}, err
	}
	line, data, ok := bytes.Cut(content, []byte("\n"))
	var h header
	if !ok || len(line) > maxHeader || json.Unmarshal(line, &h) != nil || h.Session != id || h.Version == "" {
		return Snapshot{}, fmt.Errorf("%s is not a snapshot of this session", d.file(id))
	}
	if h.SHA256 != sumOf(data) {
		return Snapshot{}, fmt.Errorf("%s is damaged: its checksum does not match", d.file(id))
	}
	return Snapshot{Data: data, Version: h.Version}, nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Save implements [Store].
func (d *Disk) Save(ctx context.Context, id string, data []byte, version string) (string, error) {
	next, err := d.save(ctx, id, data, version)
	return next, wrap("save", id, err)
}

func (d *Disk) save(ctx context.Context, id string, data []byte, version string) (string, error) {
	if err := d.check(ctx, id, data); err != nil {
		return "", err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	old, err := d.load(ctx, id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if old.Version != version {
		return "", ErrConflict
	}
	next := rand.Text()
	line, err := json.Marshal(header{Session: id, Version: next, SHA256: sumOf(data)})
	if err != nil {
		return "", err
	}
	if err := d.replace(ctx, d.file(id), append(line, '\n'), data); err != nil {
		return "", err
	}
	return next, nil
}

// replace replaces a file atomically.
func (d *Disk) replace(ctx context.Context, name string, line, data []byte) error {
	name, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	w, err := fsops.New(filepath.Dir(name)).Create(name, fsops.WriteOptions{Perm: 0o600, Sync: true})
	if err != nil {
		return err
	}
	defer w.Close()
	content := append(line, data...)
	if _, err := w.Write(content); err != nil {
		return err
	}
	_, err = w.CommitAtomic(ctx, fsops.SumOf(content))
	return err
}

// Delete implements [Store].
func (d *Disk) Delete(ctx context.Context, id string) error {
	return wrap("delete", id, d.delete(ctx, id))
}

func (d *Disk) delete(ctx context.Context, id string) error {
	if err := d.check(ctx, id, nil); err != nil {
		return err
	}
	if _, err := os.Stat(d.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil // do not create it
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	err = os.Remove(d.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fsops.SyncDir(d.Dir)
}

func (d *Disk) file(id string) string { return filepath.Join(d.Dir, nameOf(id)+".session") }
