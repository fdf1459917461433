package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// restCall is a request to envd that is none of Connect's.
type restCall struct {
	*envdCall
	w     http.ResponseWriter
	r     *http.Request
	query url.Values
	began bool // the answer has, so that an error can only cut it off
}

// rest returns the handler of such requests.
func rest(do func(*restCall) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &restCall{envdCall: callOf(r.Context()), w: w, r: r, query: r.URL.Query()}
		switch err := do(c); {
		case err == nil:
		case c.began:
			c.Failure(r.Context(), err) // it is noted
			panic(http.ErrAbortHandler)
		default:
			for _, name := range []string{"ETag", "Last-Modified", "Content-Disposition"} {
				w.Header().Del(name) // they are of the file
			}
			envdFailure(w, r, ofFile(err))
		}
	})
}

// addRest adds what envd serves beside its Connect services.
func addRest(mux *http.ServeMux) {
	mux.Handle("GET "+filesPath, rest(readFile))
	mux.Handle("POST "+filesPath, rest(writeFiles))
	mux.Handle("GET /health", rest(health))
	mux.Handle("GET /metrics", rest(readMetrics))
	mux.Handle("GET /envs", rest(readEnvs))
}

// onFile does an operation for a request that names its user by a query, and may be signed.
func (c *restCall) onFile(operation string, d gateway.Detail, do func(*launcher.Sandbox) error) error {
	if err := c.checkTime(); err != nil {
		return err
	}
	return c.do(c.r.Context(), task{operation: operation, detail: d, user: c.query.Get("username")}, do)
}

// checkTime refuses a request that was signed for a time that is over.
func (c *restCall) checkTime() error {
	if c.signed && hasExpired(c.query.Get("signature_expiration"), time.Now()) {
		return gateway.Fail(http.StatusUnauthorized, "unauthenticated", "signature is already expired")
	}
	return nil
}

// health answers whether a sandbox runs, soon in any case. It wakes nothing.
func health(c *restCall) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), healthTime)
	defer cancel()
	asking, stop := context.WithTimeout(ctx, agentTime)
	defer stop()
	err := c.do(asking, task{operation: "health", asleep: true}, func(s *launcher.Sandbox) error { return notServing(s.Healthy(asking)) })
	if err != nil && asking.Err() != nil && c.isOver(ctx) {
		return errEnds
	}
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// notServing says that a sandbox does not run whose agent is about to end, or cannot be reached: clients know
// that by 502 alone.
func notServing(err error) error {
	if errors.Is(err, podapi.ErrUnavailable) {
		return gateway.Fail(http.StatusBadGateway, "agent_lost", err.Error())
	}
	return err
}

// readMetrics answers with what the sandbox uses.
func readMetrics(c *restCall) error {
	return c.do(c.r.Context(), task{operation: "metrics", asleep: true}, func(s *launcher.Sandbox) error {
		m, err := measure(c.r.Context(), s)
		if err == nil {
			faces.WriteJSON(c.w, http.StatusOK, envdMetricsOf(m))
		}
		return err
	})
}

// readEnvs answers with the environment that commands of the sandbox get. A command tells it: the
// agent does not.
func readEnvs(c *restCall) error {
	ctx, args := c.r.Context(), []string{"env", "-0"}
	return c.do(ctx, task{operation: "envs", detail: gateway.Detail{Args: args}}, func(s *launcher.Sandbox) error {
		out := &boundedBuffer{limit: envsLimit}
		command := s.Command(ctx, args[0], args[1:]...)
		command.Stdout = out
		if err := command.Run(); err != nil {
			return err
		}
		envs := map[string]string{}
		for variable := range strings.SplitSeq(out.String(), "\x00") {
			if name, value, ok := strings.Cut(variable, "="); ok {
				envs[faces.Text(name)] = faces.Text(value)
			}
		}
		faces.WriteJSON(c.w, http.StatusOK, envs)
		return nil
	})
}

// boundedBuffer is a buffer that takes no more than its limit, in bytes.
type boundedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, fmt.Errorf("there is more output than %d bytes", b.limit)
	}
	return b.Buffer.Write(p)
}
