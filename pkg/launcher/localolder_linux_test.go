package launcher_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// An agent of before checkpoints knows no flag for them, and is of use without.
func TestAgentOfBeforeCheckpointsStarts(t *testing.T) {
	l := launchertest.Local(t)
	older := filepath.Join(t.TempDir(), "podagent")
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' --checkpoints'*) echo 'flag provided but not defined' >&2; exit 2;; esac\nunset PODAGENT_CHECKPOINTS\nexec %q \"$@\"\n", l.Agent)
	writeProgram(t, older, []byte(script))
	l.Agent = older
	s := launch(t, l, launcher.Spec{ID: "a"})
	if out, err := s.Shell(t.Context(), "echo $PODAGENT_CHECKPOINTS.").Output(); err != nil || string(out) != ".\n" {
		t.Errorf("it printed %q, %v", out, err)
	}
	if _, err := s.Checkpoint(t.Context(), checkpoint.CreateOptions{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a checkpoint: %v", err)
	}
}
