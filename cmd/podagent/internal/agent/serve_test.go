package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

func TestOnlyHoldersOfTheKeyMayCall(t *testing.T) {
	known, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	_, socket := serveTest(t, func(c *Config) {
		c.AuthorizedKeys = []wire.AuthorizedKey{known.AuthorizedKey()}
		c.PodUID = "uid-1"
	})
	ctx := t.Context()
	for what, test := range map[string]struct {
		opts podapi.DialOptions
		want error
	}{
		"with the key":                  {podapi.DialOptions{Identity: &known, PodUID: "uid-1"}, nil},
		"with the key, any pod":         {podapi.DialOptions{Identity: &known}, nil},
		"with the key, for another pod": {podapi.DialOptions{Identity: &known, PodUID: "uid-2"}, podapi.ErrWrongPod},
		"with another key":              {podapi.DialOptions{Identity: &stranger, PodUID: "uid-1"}, podapi.ErrUnauthenticated},
		"without TLS":                   {podapi.DialOptions{}, podapi.ErrUnavailable},
	} {
		test.opts.Dial = unixDialer(socket)
		c := dial(t, test.opts)
		for range 3 { // a second try must not make a difference
			if _, err := c.Info(ctx); !errors.Is(err, test.want) {
				t.Errorf("%s: a call: %v, want %v", what, err, test.want)
			}
			if err := second(c.ReadFile(ctx, "/etc/hostname")); !errors.Is(err, test.want) {
				t.Errorf("%s: a stream: %v, want %v", what, err, test.want)
			}
		}
	}
	conn, err := tls.Dial("unix", socket, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil {
		conn.Close()
		t.Error("the agent speaks TLS 1.2")
	}
}

func TestServeRefusesToListenToEverybodyByMistake(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, listen := range []string{"tcp:127.0.0.1:0", "tcp:0.0.0.0:0", "udp:x", "unix:", ""} {
		if err := Serve(t.Context(), Config{Listen: []string{listen}, Workdir: "/", Log: log}); err == nil {
			t.Errorf("it serves on %q", listen)
		}
	}
}

func TestSocketIsItsOwnersAlone(t *testing.T) {
	_, socket := serveTest(t, nil)
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
}

func TestSecondAgentOnASocketIsRefusedAndAStaleOneReplaced(t *testing.T) {
	_, socket := serveTest(t, nil)
	log := slog.New(slog.DiscardHandler)
	if err := Serve(t.Context(), Config{Listen: []string{"unix:" + socket}, Workdir: "/", Log: log}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second agent: %v", err)
	}
	stale := filepath.Join(t.TempDir(), "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	serveTest(t, func(c *Config) { c.Listen = []string{"unix:" + stale} })
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), Config{Listen: []string{"unix:" + file}, Workdir: "/", Log: log}); err == nil {
		t.Error("a file was replaced by a socket")
	}
}

func TestHealthAnswersNothingElse(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "health")
	_, main := serveTest(t, func(c *Config) { c.Health = "unix:" + socket })
	if err := CheckHealth(t.Context(), "unix:"+socket); err != nil {
		t.Error(err)
	}
	if err := CheckHealth(t.Context(), "unix:"+main); err != nil {
		t.Errorf("health on the agent's own socket: %v", err)
	}
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	if _, err := c.Info(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Info on the health socket: %v", err)
	}
	for _, address := range []string{socket, main} {
		stream, err := healthpb.NewHealthClient(raw(t, address)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if code := grpcstatus.Code(err); code != codes.Unimplemented {
			t.Errorf("a watch of the health on %s: %v", address, err)
		}
	}
	if err := CheckHealth(t.Context(), "unix:"+socket+"x"); !errors.Is(err, podapi.ErrUnavailable) {
		t.Errorf("health without an agent: %v", err)
	}
}

func TestShutdownEndsProcessesAndWatches(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	socket := filepath.Join(dir, "s")
	go func() {
		ended <- Serve(ctx, Config{Listen: []string{"unix:" + socket}, Workdir: dir, Log: slog.New(slog.DiscardHandler)})
	}()
	c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	for c.Healthy(t.Context()) != nil {
		time.Sleep(time.Millisecond)
	}
	cmd := c.Command(t.Context(), "/bin/sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watched := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		var last error
		for _, err := range c.Watch(t.Context(), ".", fsops.WatchOptions{Ready: func() { close(ready) }}) {
			last = err
		}
		watched <- last
	}()
	<-ready
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := <-watched; !errors.Is(err, podapi.ErrUnavailable) {
		t.Errorf("the watch ended with %v", err)
	}
	var exit *podapi.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Reason != podapi.Signalled {
		t.Errorf("the process ended with %v", err)
	}
	if err := syscall.Kill(cmd.Process.PID(), 0); err == nil {
		t.Error("the process survived the agent")
	}
}
