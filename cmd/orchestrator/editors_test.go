package main

import (
	"testing"

	"github.com/podagent/podagent/pkg/egress"
)

func TestEachEditorHasARuleForWhatItsServerDownloads(t *testing.T) {
	for _, e := range editors {
		if _, err := egress.ParseRule(e.rule()); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
}
