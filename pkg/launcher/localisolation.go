package launcher

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// isolation returns the mode of new sandboxes.
func (l *Local) isolation() isolation.Mode { return cmp.Or(l.Isolation, isolation.Auto) }

// checkIsolation checks what new sandboxes are to be like.
func (l *Local) checkIsolation() error {
	if _, err := isolation.ParseMode(string(l.isolation())); err != nil {
		return fmt.Errorf("Local.Isolation: %w", err)
	}
	for _, path := range l.Readable {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("Local.Readable: %q is not absolute", path)
		}
	}
	if len(l.Readable) > 0 && !l.isolates() {
		return fmt.Errorf("Local.Readable: a sandbox that nothing isolates can read all that you can: %w", ErrIsolation)
	}
	return nil
}

// isolates reports whether new sandboxes are to be isolated.
func (l *Local) isolates() bool { return l.isolation() != isolation.Off }
