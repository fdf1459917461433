package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTokenFileThatOthersKnowIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(path string) error
		says   string // nothing if the token is taken
	}{
		"one's own":      {func(path string) error { return os.Chmod(path, 0o400) }, ""},
		"readable":       {func(path string) error { return os.Chmod(path, 0o644) }, "others can get at it (mode 0644)"},
		"of a group":     {func(path string) error { return os.Chmod(path, 0o640) }, "others can get at it (mode 0640)"},
		"another user's": {func(path string) error { return os.Chown(path, 12345, 12345) }, "it belongs to user 12345"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			err := errors.Join(os.WriteFile(path, []byte(mcpTestToken+"\n"), 0o600), test.change(path))
			if err != nil {
				t.Fatalf("this test needs root: %v", err)
			}
			token, err := (&httpFlags{tokenFile: path}).token(t.Context(), nil)
			if test.says == "" && (err != nil || token != mcpTestToken) {
				t.Errorf("got %q, %v", token, err)
			}
			if test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || token != "") {
				t.Errorf("got %q, %v", token, err)
			}
		})
	}
}
