package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// isolationRecord is how a sandbox is kept from the rest of its machine, also when its agent starts again.
type isolationRecord struct {
	Mode     isolation.Mode `json:"mode,omitempty"`
	Readable []string       `json:"readable,omitempty"`
	// Links are the paths of the workdir and of Readable as they were given, where those are symbolic links.
	Links []string `json:"links,omitempty"`
	// Ephemeral, if not 0, is how many bytes of files it may have in memory; it has none on disk then.
	Ephemeral int64 `json:"ephemeral,omitempty"`
}

// isolationRecord returns that of new sandboxes.
func (l *Local) isolationRecord() isolationRecord {
	r := isolationRecord{Mode: l.isolation(), Readable: l.Readable, Ephemeral: l.Ephemeral}
	if r.Ephemeral > 0 {
		r.Mode = isolation.Mode(isolation.Namespaces)
	}
	return r
}

// drift says which of what the launcher would make a sandbox with this one has not.
func (l *Local) drift(p *place) (drift []string) {
	if asked, is := l.named(), p.Limits; len(asked) > 0 && !maps.Equal(asked, is) {
		drift = append(drift, fmt.Sprintf("limits are %s, not %s", limitsText(is), limitsText(asked)))
	}
	for _, path := range l.Readable {
		if followed, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(p.Isolation.Readable, followed) {
			drift = append(drift, fmt.Sprintf("%q is not readable", path))
		}
	}
	return drift
}

// limitsText lists limits by their names.
func limitsText(limits namedLimits) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		list = append(list, fmt.Sprintf("%s=%s", name, limitText(name, limits[name])))
	}
	return cmp.Or(strings.Join(list, ","), "unset")
}

// on reports whether anything does.
func (r *isolationRecord) on() bool { return r.Mode != "" && r.Mode != isolation.Off }

// isolationFlags returns the agent's flags.
func (p *place) isolationFlags() ([]string, error) {
	r := &p.Isolation
	if !r.on() {
		return nil, nil
	}
	hidden, err := p.privateDirs()
	if err != nil {
		return nil, err
	}
	flags := []string{"--isolation=" + string(r.Mode), "--home=" + ownHome, "--temp=" + ownTemp}
	for flag, list := range map[string][]string{"--readable=": r.Readable, "--hide=": hidden, "--link=": r.Links} {
		for _, path := range list {
			flags = append(flags, flag+path)
		}
	}
	if r.Ephemeral > 0 {
		flags = append(flags, fmt.Sprintf("--ephemeral=%d", r.Ephemeral))
	}
	return flags, nil
}

// keepLevel has the sandbox keep the level that it came to first, when its agent starts again: code in it may
// make a start fail, and must not gain by that.
func (p *place) keepLevel(ctx context.Context, s *Sandbox) (*Sandbox, error) {
	if p.Isolation.Mode != isolation.Auto && p.Isolation.Mode != isolation.Require {
		return s, nil
	}
	p.Isolation.Mode = cmp.Or(isolation.Mode(s.Isolation.Level), isolation.Off)
	if err := p.save(ctx, &Spec{}); err != nil {
		return nil, errors.Join(err, s.Client.Close())
	}
	return s, nil
}
