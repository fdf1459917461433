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

// overAGatewayOfPods are those of them that also run with a gateway over pods: each has something
// that comes to a pod by another way than to a local sandbox.
var overAGatewayOfPods = []string{
	"TestCaseTerminateRemovesTheSandbox", "TestFindDescribesOneSandboxThatRunsAndNoneAfterwards", "TestLazySandboxTerminatesWhatItLaunched",
	"TestExecKeepsStreamsApart", "TestExecEnvironmentAndWorkdir", "TestExecTimeoutKillsTheTreeAndKeepsTheOutputSoFar", "TestProcessRunsOnWithoutItsCaller",
	"TestTerminalHasItsSizeEchoesAndSaysThatItChanged", "TestRoundTripOfEverySize", "TestTreePushedAndPulledIsIdentical", "TestWatchSeesWhatHappens",
}

// runsOverAGateway reports whether a test over each launcher also runs over a gateway.
func runsOverAGateway(test string) bool { return slices.Contains(overAGateway, test) }

// runsOverAGatewayOfPods reports whether it also runs over one whose sandboxes are pods.
func runsOverAGatewayOfPods(test string) bool { return slices.Contains(overAGatewayOfPods, test) }

// behindAGateway returns the launcher of a gateway over a launcher, whose sandboxes are like base, and a Spec.
func behindAGateway(t *testing.T, l launcher.Launcher, base launcher.Spec) (*remote.Launcher, launcher.Spec) {
	t.Helper()
	g := gateway.New(gateway.Options{
		Launcher: l, Base: base, Ledger: ledger.Files{Dir: t.TempDir()},
		Tenants: gateway.OneTenant{Name: "main", Token: gatewayToken},
	})
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
	return behindAGateway(t, launchertest.Local(t), launcher.Spec{})
}

func overPodsGateway(t *testing.T) (*remote.Launcher, launcher.Spec) {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	return behindAGateway(t, c.Launcher(), c.Spec(""))
}
