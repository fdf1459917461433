package sessionstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/podagent/podagent/pkg/fsops"
)

// Disk keeps snapshots as files in a directory, for one machine: a file each,
// readable by its owner alone, beside a lock file that all hosts share. A file
// is replaced at once, and is on the disk when Save returns.
type Disk struct {
	// Dir is made when it is needed.
	Dir string
}

var _ Store = (*Disk)(nil)

// header is the line in front of a snapshot.
type header struct {
	Session string `json:"session"`
	Version string `json:"version"`
}

// Load implements [Store].
func (d *Disk) Load(ctx context.Context, id string) (Snapshot, error) {
	s, err := d.load(ctx, id)
	return s, wrap("load", id, err)
}

func (d *Disk) load(ctx context.Context, id string) (Snapshot, error) {
	if err := errors.Join(ctx.Err(), check(id, nil)); err != nil {
		return Snapshot{}, err
	}
	data, err := os.ReadFile(d.file(id))
	if err != nil {
		return Snapshot{}, err
	}
	line, data, ok := bytes.Cut(data, []byte("\n"))
	var h header
	if !ok || len(line) > maxHeader || json.Unmarshal(line, &h) != nil || h.Session != id || h.Version == "" {
		return Snapshot{}, fmt.Errorf("%s is not its snapshot", d.file(id))
	}
	return Snapshot{Data: data, Version: h.Version}, nil
}

// Save implements [Store].
func (d *Disk) Save(ctx context.Context, id string, data []byte, version string) (string, error) {
	next, err := d.save(ctx, id, data, version)
	return next, wrap("save", id, err)
}

func (d *Disk) save(ctx context.Context, id string, data []byte, version string) (string, error) {
	if err := check(id, data); err != nil {
		return "", err
	}
	unlock, err := d.lock()
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
	line, err := json.Marshal(header{Session: id, Version: next})
	if err != nil {
		return "", err
	}
	return next, d.replace(ctx, d.file(id), append(line, '\n'), data)
}

// replace writes a file anew, whole or not at all.
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
	_, err = w.Commit(ctx, fsops.SumOf(content))
	return err
}

// Delete implements [Store].
func (d *Disk) Delete(ctx context.Context, id string) error {
	if err := errors.Join(ctx.Err(), check(id, nil)); err != nil {
		return wrap("delete", id, err)
	}
	unlock, err := d.lock()
	if err != nil {
		return wrap("delete", id, err)
	}
	defer unlock()
	err = os.Remove(d.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return wrap("delete", id, err)
}

func (d *Disk) file(id string) string { return filepath.Join(d.Dir, nameOf(id)+".session") }

// lock keeps all others from changing a snapshot, for the moment that it takes.
func (d *Disk) lock() (unlock func(), err error) {
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	return lockedfile.MutexAt(filepath.Join(d.Dir, ".lock")).Lock()
}
