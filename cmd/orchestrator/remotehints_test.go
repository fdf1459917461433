package main

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/remote"
	"github.com/podagent/podagent/pkg/podapi"
)

// Who has no rights in the cluster gets no advice that needs them, nor flags that a gateway refuses.
func TestHintsThroughAGateway(t *testing.T) {
	a := &app{}
	a.backend.Value = throughGateway
	for err, say := range map[error]string{
		launcher.ErrUnschedulable:  "ask for less with --limits,",
		launcher.ErrCannotStart:    "choose another --image;",
		launcher.ErrCrashLoop:      "choose another --image;",
		launcher.ErrStale:          `"orchestrator resume 'a b'" goes on`,
		launcher.ErrDeadline:       "whoever runs the gateway",
		launcher.ErrNoStorageClass: "whoever runs the gateway",
		launcher.ErrRejected:       "whoever runs the gateway",
		launcher.ErrDrift:          "whoever runs the gateway",
		launcher.ErrEgress:         "whoever runs the gateway",
		podapi.ErrCut:              `"orchestrator describe 'a b'" says`,
		podapi.ErrUnavailable:      `"orchestrator describe 'a b'" says`,
		podapi.ErrUnauthenticated:  "whoever runs the gateway",
		launcher.ErrPaused:         `"orchestrator resume 'a b'" goes on`, // as with every backend
	} {
		got := explain(a.marked(noWayTo(err)))
		if hint, ok := strings.CutPrefix(got, err.Error()+": "); !ok || !strings.HasPrefix(hint, say) {
			t.Errorf("the message is %q: it does not say %s", got, say)
		}
		if without := explain(noWayTo(err)); strings.Contains(without, "gateway") {
			t.Errorf("without a gateway the message is %q", without)
		}
	}
	both := a.marked(errors.Join(in(launcher.ErrDeadline), in(launcher.ErrRejected)))
	var said strings.Builder
	if report(t.Context(), &said, both); strings.Count(said.String(), "whoever runs the gateway") != 2 {
		t.Errorf("of two errors is said %q", said.String())
	}
}

// What a gateway refuses is not the answer of a sandbox.
func TestFailuresOfGateways(t *testing.T) {
	a := &app{}
	a.backend.Value = throughGateway
	for err, say := range map[error]string{
		&remote.Error{Status: http.StatusUnauthorized, Class: "unauthenticated", Detail: "no"}: "give one that is valid, with --gateway-token-file",
		&remote.Error{Status: http.StatusForbidden, Class: "not_allowed", Detail: "no"}:        "whoever runs the gateway says what",
		&remote.Error{Status: http.StatusTooManyRequests, Class: "rate", Detail: "no"}:         "wait, or make room",
		&remote.Error{Status: http.StatusOK, Detail: "no"}:                                     "look at --gateway; ",
		&remote.Error{Class: "unavailable", Detail: "no"}:                                      "look at --gateway; ",
	} {
		err := in(err)
		if status := exitStatus(t.Context(), err); status != exitTrouble {
			t.Errorf("the exit status for %v is %d", err, status)
		}
		if got := explain(a.marked(err)); !strings.HasPrefix(got, "no: "+say) {
			t.Errorf("the message is %q: it does not say %s", got, say)
		}
	}
}

func TestHintForACertificateThatNobodyTrustedSigned(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer server.Close()
	a := &app{}
	a.backend.Value = throughGateway
	_, err := (&remote.Launcher{URL: server.URL, Token: "x"}).List(t.Context())
	if got := explain(a.marked(err)); !strings.HasSuffix(got, ": look at --gateway, and name the certificate of who signed its own with --gateway-ca") {
		t.Errorf("the message is %q", got)
	}
}
