package launcher

import (
	"fmt"
	"path/filepath"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// checkIsolation checks what new sandboxes are to be like.
func (l *Local) checkIsolation() error {
	if l.Isolation != "" {
		if _, err := isolation.ParseMode(string(l.Isolation)); err != nil {
			return fmt.Errorf("Local.Isolation: %w", err)
		}
	}
	for _, path := range l.Readable {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("Local.Readable: %q is not absolute", path)
		}
	}
	return nil
}

// isolates reports whether new sandboxes are to be isolated.
func (l *Local) isolates() bool { return l.Isolation != "" && l.Isolation != isolation.Off }
