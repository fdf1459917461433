package e2b

import (
	"context"
	"net/http"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// userOf returns the user that a request to envd is for; "" for the sandbox's own. It comes without a
// password.
func userOf(h http.Header) string {
	user, _, _ := (&http.Request{Header: h}).BasicAuth()
	return user
}

// checkUser refuses what a sandbox cannot do as a user. Whatever its name, it is the one that the
// sandbox's processes run as; but root is asked for to do what another cannot.
func checkUser(ctx context.Context, s *launcher.Sandbox, user string) error {
	if user != "root" {
		return nil
	}
	info, err := s.Info(ctx)
	if err == nil && info.UID != 0 {
		return gateway.Fail(http.StatusNotImplemented, "unsupported", "the user root is not supported: this sandbox runs as another, and has no way to be root")
	}
	return err
}
