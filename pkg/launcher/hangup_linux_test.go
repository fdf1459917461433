package launcher_test

import (
	"errors"
	"os/signal"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// Who starts a program by nohup lets it ignore hangups, and all that it starts.
func TestCommandsDoNotIgnoreHangupsAsTheirAgentMay(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	s := launch(t, launchertest.Local(t), launcher.Spec{ID: "a"})
	err := s.Command(t.Context(), "sh", "-c", "kill -HUP $$; echo survived").Run()
	exit, ok := errors.AsType[*podapi.ExitError](err)
	if !ok || exit.Reason != podapi.Signalled || exit.Signal != int(syscall.SIGHUP) {
		t.Errorf("the command ended with %v", err)
	}
}
