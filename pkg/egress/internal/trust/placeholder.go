package trust

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// writePlaceholders writes those that programs read from files.
func (t *Trust) writePlaceholders(ctx context.Context) error {
	for _, p := range t.placeholders {
		if p.File == "" {
			continue
		}
		opts := fsops.WriteOptions{Perm: 0o600, Parents: true}
		if _, err := t.client.Write(ctx, p.File, strings.NewReader(p.Text), opts); err != nil {
			return fmt.Errorf("the placeholder of credential %s cannot be written in the sandbox: %w", p.Name, err)
		}
	}
	return nil
}

// removePlaceholders removes the files that are still as they were written. Whatever else is
// there by now is somebody else's: the placeholder of the next far end, perhaps.
func (t *Trust) removePlaceholders(ctx context.Context) {
	for _, p := range t.placeholders {
		if p.File != "" && t.has(ctx, p.File, p.Text) {
			_ = t.client.Remove(ctx, p.File) // else it stays
		}
	}
}

// has reports whether a file of the sandbox has this content. A link has none of its own.
func (t *Trust) has(ctx context.Context, file, want string) bool {
	attr, err := t.client.Lstat(ctx, file)
	if err != nil || !attr.Mode.IsRegular() || attr.Size != int64(len(want)) {
		return false
	}
	var content bytes.Buffer
	_, err = t.client.Read(ctx, file, &content, fsops.ReadOptions{Length: int64(len(want)), Opened: isRegular})
	return err == nil && content.String() == want
}
