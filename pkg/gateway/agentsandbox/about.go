package agentsandbox

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// alive answers whether the sandbox runs, as the Python runtime does.
func alive(c *call) error {
	return c.healthy(map[string]string{"status": "ok", "message": "Sandbox Runtime is active."})
}

// healthV1 answers whether the sandbox runs, as sandboxd does. For how long it has run is not known.
func healthV1(c *call) error {
	return c.healthy(struct {
		Status string `json:"status"`
		Uptime int64  `json:"uptime_seconds"`
	}{Status: "ok"})
}

// healthy looks whether the sandbox runs, soon in any case. It wakes nothing.
func (c *call) healthy(answer any) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), healthTime)
	defer cancel()
	err := c.begin(ctx, c.Call, c.operation, gateway.Detail{})
	if err == nil {
		err = c.Use(ctx, c.id, false, func(s *launcher.Sandbox) error { return s.Healthy(ctx) })
	}
	if errors.Is(err, podapi.ErrUnavailable) {
		return gateway.Fail(http.StatusServiceUnavailable, "unavailable", c.Failure(c.r.Context(), err).Text) // by the caller's names
	}
	if err == nil {
		faces.WriteJSON(c.w, http.StatusOK, answer)
	}
	return err
}

// metadataV1 answers with what the environment tells commands of the sandbox: the variables that begin with
// SANDBOX_, but for those that look like secrets. A command tells it: the agent does not.
func metadataV1(c *call) error {
	words := []string{"env", "-0"}
	return c.on(gateway.Detail{Args: words}, func(s *launcher.Sandbox) error {
		ran, err := run(c.r.Context(), c.Call, s, &command{words: words, limit: envsLimit, timeout: executeTime})
		if err != nil {
			return err
		}
		env := map[string]string{}
		for variable := range strings.SplitSeq(ran.stdout.String(), "\x00") {
			if name, value, ok := strings.Cut(variable, "="); ok && strings.HasPrefix(name, "SANDBOX_") && !isSecret(name) {
				env[faces.Text(name)] = faces.Text(value)
			}
		}
		faces.WriteJSON(c.w, http.StatusOK, struct {
			Env map[string]string `json:"env"`
		}{env})
		return nil
	})
}

// isSecret reports whether a variable has a name that secrets have, as sandboxd knows them.
func isSecret(name string) bool {
	for _, part := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CRED", "KEY", "AUTH", "BEARER", "PRIVATE", "CERT"} {
		if strings.Contains(strings.ToUpper(name), part) {
			return true
		}
	}
	return false
}
