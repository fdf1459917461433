package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A sandbox within rules of Landlock can take the right to execute from the user's podagent, and may have put another one
// where the search would go on.
func TestSearchForTheAgentEndsAtOneThatCannotBeExecuted(t *testing.T) {
	t.Setenv("PODAGENT_BIN", "")
	missing, mine, planted := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("PATH", missing+":relative:"+mine+":"+planted)
	for _, dir := range []string{mine, planted} {
		if err := os.WriteFile(filepath.Join(dir, agentName), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := new(Local).findAgent(); err != nil || got != filepath.Join(mine, agentName) {
		t.Errorf("it is %q, %v", got, err)
	}
	if err := os.Chmod(filepath.Join(mine, agentName), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := new(Local).findAgent(); !errors.Is(err, ErrNoAgent) {
		t.Errorf("it is %q, %v", got, err)
	}
}
