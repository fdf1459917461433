package main

import (
	"crypto/tls"
	"errors"
	"net/http"
	"slices"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/remote"
	"github.com/podagent/podagent/pkg/podapi"
)

// A throughError is any error of the remote backend: those who meet it have no rights in the cluster, and
// not all flags of a pod.
type throughError struct{ error }

func (e *throughError) Unwrap() error { return e.error }

// hintsFor returns the hints of which the first that fits is for err.
func hintsFor(err error) []hint {
	if errors.As(err, new(*throughError)) {
		return slices.Concat(gatewayHints, hints)
	}
	return hints
}

// gatewayHints come before the others for errors of the remote backend.
var gatewayHints = []hint{
	{is: isErr(remote.ErrUnencrypted), say: "or give --gateway-allow-http"},
	{is: isOfCertificate, say: "look at --gateway, and name the certificate of who signed its own with --gateway-ca"},
	{is: isNoGateway, say: `look at --gateway; "orchestrator doctor" checks it`},
	{is: isGatewayStatus(http.StatusUnauthorized), say: "give one that is valid, with --gateway-token-file or in PODAGENT_GATEWAY_TOKEN"},
	{is: isGatewayStatus(http.StatusForbidden), say: "whoever runs the gateway says what its tenants may ask for"},
	{is: isGatewayStatus(http.StatusTooManyRequests), say: `wait, or make room with "orchestrator down"`},
	{is: isErr(launcher.ErrUnschedulable), say: "ask for less with --limits, or whoever runs the gateway for room"},
	{is: isErr(launcher.ErrCannotStart), say: "choose another --image; whoever runs the gateway says what it must have"},
	{is: isErr(launcher.ErrCrashLoop), say: "choose another --image; whoever runs the gateway says what it must have"},
	{is: isErr(launcher.ErrStale), say: `"orchestrator resume %s" goes on with one that was launched with --keep-workspace, "orchestrator down %s" and "orchestrator up %s" make another`},
	{is: isDecidedByGateway, say: "whoever runs the gateway decides this"},
	{is: isErr(podapi.ErrCut), say: `"orchestrator describe %s" says whether the gateway and the agent still answer`},
	{is: isErr(podapi.ErrUnavailable), say: `"orchestrator describe %s" says whether the gateway and the agent still answer`},
}

// isNoGateway reports whether err says that there was no gateway to answer.
func isNoGateway(err error) bool {
	e, ok := errors.AsType[*remote.Error](err)
	return ok && (e.Status == 0 || e.Class == "")
}

func isOfCertificate(err error) bool {
	return isNoGateway(err) && errors.As(err, new(*tls.CertificateVerificationError))
}

// isGatewayStatus returns a test for a refusal of a gateway's with this status.
func isGatewayStatus(status int) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*remote.Error](err)
		return ok && e.Status == status
	}
}

// isDecidedByGateway reports whether err has a cause that only flags could change which no gateway can be
// asked for.
func isDecidedByGateway(err error) bool {
	return slices.ContainsFunc([]error{
		launcher.ErrDeadline, launcher.ErrNoStorageClass, launcher.ErrRejected, launcher.ErrDrift, launcher.ErrEgress, launcher.ErrOwned, podapi.ErrUnauthenticated,
	}, func(class error) bool { return errors.Is(err, class) })
}
