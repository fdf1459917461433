package checkpoint

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// A manifest is what a checkpoint consists of besides objects. Paths in it are bytes, which
// JSON has in base64.
type manifest struct {
	Format int    `json:"format"`
	Tree   []byte `json:"tree"` // the hash of the root's object
	Name   string `json:"name,omitempty"`
	// Automatic checkpoints are dropped as if they had no name.
	Automatic bool      `json:"automatic,omitempty"`
	Time      time.Time `json:"time"`
	Began     time.Time `json:"began"` // by the clock that the times of files come from
	Files     int64     `json:"files"`
	Bytes     int64     `json:"bytes"`
	Stored    int64     `json:"stored"`
	// Exclude are the patterns whose files it does not have.
	Exclude     []string  `json:"exclude,omitempty"`
	LeftOut     []leftOut `json:"leftOut,omitempty"`
	MoreLeftOut int64     `json:"moreLeftOut,omitempty"`
	Moving      [][]byte  `json:"moving,omitempty"`
	MoreMoving  int64     `json:"moreMoving,omitempty"`
}

type leftOut struct {
	Path []byte `json:"path"`
	Why  string `json:"why"`
}

const (
	manifestFormat = 1
	maxName        = 200 // bytes
	// maxNamed bounds how many files a checkpoint names as left out, or as moving.
	maxNamed = 1000
	// maxNamedPath bounds each of these names.
	maxNamedPath = 1000
)

// encode returns the text of a manifest, and its hash.
func (m *manifest) encode() ([]byte, ID, error) {
	text, err := json.Marshal(m)
	if err == nil && len(text) > MaxManifest {
		err = fmt.Errorf("%w: its manifest has more than %d bytes", ErrTooLarge, MaxManifest)
	}
	return text, ID(object.Sum(text).String()), err
}

// decodeManifest reads the text of the manifest with this ID.
func decodeManifest(id ID, text []byte) (*manifest, error) {
	if object.Sum(text).String() != string(id) {
		return nil, fmt.Errorf("%w: its manifest is not the one that was written", ErrCorrupt)
	}
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: its manifest: %w", ErrCorrupt, err)
	}
	if m.Format != manifestFormat || len(m.Tree) != sha256.Size {
		return nil, fmt.Errorf("%w: its manifest is of another version", ErrCorrupt)
	}
	return m, nil
}

// root is the entry of the tree's root, of which a checkpoint has the content alone.
func (m *manifest) root() tree.Entry { return tree.Entry{Kind: tree.Directory, Hash: Hash(m.Tree)} }

// describe returns what callers see.
func (m *manifest) describe(id ID) Checkpoint {
	c := Checkpoint{ID: id, Name: m.Name, Automatic: m.Automatic, Time: m.Time, Files: m.Files, Bytes: m.Bytes, Stored: m.Stored, MoreLeftOut: m.MoreLeftOut, MoreMoving: m.MoreMoving}
	for _, l := range m.LeftOut {
		c.LeftOut = append(c.LeftOut, LeftOut{Path: string(l.Path), Why: l.Why})
	}
	for _, path := range m.Moving {
		c.Moving = append(c.Moving, string(path))
	}
	return c
}

// valid returns an error if a manifest is none that Create makes. It may come from anywhere.
func (m *manifest) valid() error {
	if len(m.Name) > maxName || m.Files < 0 || m.Bytes < 0 || m.Stored < 0 || m.MoreLeftOut < 0 || m.MoreMoving < 0 ||
		len(m.LeftOut) > maxNamed || len(m.Moving) > maxNamed {
		return fmt.Errorf("%w: its manifest says what none says", ErrCorrupt)
	}
	_, err := excluded(m.Exclude)
	return err
}

// The bounds on the globs that a checkpoint excludes, which may be a forged one: a restore compares each file with each of them.
const (
	maxExcluded     = 1000
	maxExcludedSize = 64 << 10 // in characters
)

func excluded(list []string) (globs.Set, error) {
	size := 0
	for _, glob := range list {
		size += utf8.RuneCountInString(glob) // which JSON does not change, as it does the bytes of what is no UTF-8
	}
	if len(list) > maxExcluded || size > maxExcludedSize {
		return nil, fmt.Errorf("%w: it excludes %d patterns with %d characters", ErrTooLarge, len(list), size)
	}
	set, err := globs.NewSet(list)
	if err != nil {
		err = fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	return set, err
}
