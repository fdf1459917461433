package e2e

// What users are promised also holds by way of a gateway: some of the tests over each launcher run over
// the remote launcher, too.

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
	"github.com/podagent/podagent/pkg/launcher/remote"
)

// overAGateway are the tests that run with a gateway over the local launcher.
var overAGateway = []string{
	"TestCaseTerminateRemovesTheSandbox", "TestCloseAfterTerminateLeavesTheNextSandboxAlone",
	"TestFindDescribesOneSandboxThatRunsAndNoneAfterwards", "TestLazySandboxIsLaunchedByItsFirstCall", "TestLazySandboxTerminatesWhatItLaunched",
	"TestExecKeepsStreamsApart", "TestExecExitCodes", "TestExecEnvironmentAndWorkdir", "TestExecOfMissingProgram", "TestExecSignal",
	"TestExecTimeoutKillsTheTreeAndKeepsTheOutputSoFar", "TestExecContextEndKillsTheProcess", "TestProcessRunsOnWithoutItsCaller",
	"TestTerminalHasItsSizeEchoesAndSaysThatItChanged", "TestRoundTripOfEverySize", "TestNamesAreBytes", "TestFileOperationsFailWithTheirClass",
	"TestDirectoryOperations", "TestOpenReadsAtAndSeeks", "TestEditAnswersWithOccurrencesAndDiff", "TestTreePushedAndPulledIsIdentical", "TestWatchSeesWhatHappens",
}

// runsOverAGateway reports whether a test over each launcher also runs over a gateway.
func runsOverAGateway(test string) bool { return slices.Contains(overAGateway, test) }

// behindAGateway returns the launcher of a gateway over a launcher, and a Spec.
func behindAGateway(t *testing.T, l launcher.Launcher) (*remote.Launcher, launcher.Spec) {
	t.Helper()
	g := gateway.New(gateway.Options{Launcher: l, Tenants: gateway.OneTenant{Name: "main", Token: gatewayToken}, Ledger: ledger.Files{Dir: t.TempDir()}})
	server := httptest.NewUnstartedServer(g)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return &remote.Launcher{URL: server.URL, Token: gatewayToken}, launcher.Spec{ID: "job-1"}
}

func overLocalGateway(t *testing.T) (*remote.Launcher, launcher.Spec) {
	t.Helper()
	return behindAGateway(t, launchertest.Local(t))
}
