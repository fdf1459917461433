package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestConfigureSetsEnvironmentAndWorkdir(t *testing.T) {
	workdir, socket := serveTest(t, func(c *Config) { c.Env = append(c.Env, "A=agent", "B=agent") })
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	if err := os.Mkdir(filepath.Join(workdir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(workdir, "sub")
	if err := c.Configure(t.Context(), podapi.Config{Env: []string{"B=configured", "C=configured"}, Workdir: sub}); err != nil {
		t.Fatal(err)
	}
	cmd := c.Shell(t.Context(), `printf %s "$A $B $C $PWD"`)
	cmd.Env = []string{"C=own"}
	if out, err := cmd.Output(); err != nil || string(out) != "agent configured own "+sub {
		t.Errorf("%q, %v", out, err)
	}
	if info, err := c.Info(t.Context()); err != nil || info.Workdir != sub || info.Version != "test" || info.BootID == "" {
		t.Errorf("%+v, %v", info, err)
	}
	for _, bad := range []podapi.Config{{Env: []string{"x"}}, {Env: []string{"A=\x00"}}, {Workdir: "relative"}, {Workdir: "/\x00"}} {
		if err := c.Configure(t.Context(), bad); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := c.Configure(t.Context(), podapi.Config{Workdir: "/etc/passwd"}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file as workdir: %v", err)
	}
}

func TestInfoKnowsIdleness(t *testing.T) {
	_, socket := serveTest(t, nil)
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	if err := c.Healthy(t.Context()); err != nil { // this is not activity
		t.Fatal(err)
	}
	if info, err := c.Info(t.Context()); err != nil || info.Idle <= 0 || info.Idle > time.Hour {
		t.Errorf("a new agent is idle for %v, %v", info.Idle, err)
	}
	cmd := c.Command(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if info, err := c.Info(t.Context()); err != nil || info.Idle != 0 {
		t.Errorf("idle for %v while a process runs, %v", info.Idle, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for { // the agent notes the end of the call after its answer
		info, err := c.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Idle > 0 {
			break
		}
	}
}

func TestPanicOfAHandlerIsAnErrorOfItsCall(t *testing.T) {
	a := newAgent(Config{Log: slog.New(slog.DiscardHandler), Workdir: "/"}, &wayOut{}, nil)
	_, err := a.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x"}, func(context.Context, any) (any, error) {
		panic("at the disco")
	})
	if err == nil || !strings.Contains(err.Error(), "at the disco") {
		t.Errorf("got %v", err)
	}
}

func TestMergeEnvTakesTheLastValue(t *testing.T) {
	got := mergeEnv([]string{"M=first"}, []string{"M=0", "A=1", "B=1"}, []string{"B=2"}, []string{"C=3", "C=4"})
	if want := []string{"M=first", "A=1", "B=2", "C=4"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
