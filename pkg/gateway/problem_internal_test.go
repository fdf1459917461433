package gateway

import (
	"fmt"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/errclass"
)

func TestEachClassOfALauncherHasAStatus(t *testing.T) {
	for _, name := range errclass.Names() {
		class, status := classify(fmt.Errorf("doing something: %w", errclass.Error(name)))
		if class != name || status < 400 {
			t.Errorf("%s: %s, %d", name, class, status)
		}
	}
	if len(launcherStatuses) != len(errclass.Names()) {
		t.Errorf("%d statuses for %d classes", len(launcherStatuses), len(errclass.Names()))
	}
}
