package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// A sandbox's directory has the name podmeta.NameOf(id), and these files.
const (
	recordFile = "sandbox.json"
	socketFile = "agent.sock"
	logFile    = "agent.log"
	workspace  = "workspace"
	ownHome    = "home" // this and the next are of isolated sandboxes
	ownTemp    = "tmp"
	ownStore   = "checkpoints"
)

// record is what the launcher remembers of a sandbox.
type record struct {
	ID      string            `json:"id"`
	Workdir string            `json:"workdir"`
	Created time.Time         `json:"created"`
	Labels  map[string]string `json:"labels,omitempty"`
	// These are bytes, because they need not be UTF-8.
	Env       [][]byte      `json:"env,omitempty"`
	Protected [][]byte      `json:"protected,omitempty"`
	Egress    wayout.Config `json:"egress,omitzero"`

	Isolation isolationRecord `json:"isolation,omitzero"`
	Limits    namedLimits     `json:"limits,omitempty"`
	Traces    traces          `json:"traces,omitzero"`
	Started   bool            `json:"started,omitempty"` // whether it ever had an agent
}

// place is the location of a sandbox's state.
type place struct {
	dir      string
	programs []string // for create: see guard
	record
}

func (l *Local) place(id string) (place, error) {
	state, err := l.Dir()
	regainDirs(state)
	return place{dir: filepath.Join(state, podmeta.NameOf(id)), record: record{ID: id}}, err
}

func (p place) path(file string) string { return filepath.Join(p.dir, file) }

// load reads the record. If there is none, the error is ErrNotFound. A place
// without an id takes that of the record.
func (p *place) load() error {
	if err := p.regain(); err != nil {
		return err
	}
	data, err := os.ReadFile(p.path(recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	id := p.ID
	if err := json.Unmarshal(data, &p.record); err != nil {
		return fmt.Errorf("reading %s: %w", p.path(recordFile), err)
	}
	if id != "" && id != p.ID {
		return fmt.Errorf("%s belongs to sandbox %q", p.path(recordFile), p.ID)
	}
	return nil
}

// create creates the sandbox's directory and record. The record comes last: a
// directory without one is no sandbox, and its creation starts over. If it fails, nothing is left.
func (p *place) create(ctx context.Context, spec Spec, isolation isolationRecord, limits namedLimits) (err error) {
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(p.dir))
		}
	}()
	p.record = record{ID: spec.ID, Workdir: spec.Workdir, Created: time.Now().UTC().Truncate(time.Second), Labels: spec.Labels, Egress: spec.egress(), Isolation: isolation, Limits: limits}
	if p.Workdir == "" {
		p.Workdir = p.path(workspace)
	}
	if isolation.on() {
		if err := p.resolve(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(p.Workdir, 0o755); err != nil {
		return err
	}
	if isolation.on() {
		if err := errors.Join(os.Mkdir(p.path(ownHome), 0o700), os.Mkdir(p.path(ownTemp), 0o700)); err != nil {
			return err
		}
	}
	return p.save(ctx, &spec)
}

// save writes the record with the agent's configuration from the spec.
func (p *place) save(ctx context.Context, spec *Spec) error {
	if spec.Env != nil {
		p.Env = toBytes(spec.Env)
	}
	if spec.Protected != nil {
		p.Protected = toBytes(spec.Protected)
	}
	return p.write(ctx)
}

// write writes the record.
func (p *place) write(ctx context.Context) error {
	data, err := json.Marshal(p.record)
	if err != nil {
		return err
	}
	w, err := fsops.New(p.dir).Create(recordFile, fsops.WriteOptions{Perm: 0o600})
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Write(data); err != nil {
		return err
	}
	_, err = w.Commit(ctx, fsops.SumOf(data))
	return err
}

func toBytes(texts []string) [][]byte {
	list := make([][]byte, len(texts))
	for i, s := range texts {
		list[i] = []byte(s)
	}
	return list
}
