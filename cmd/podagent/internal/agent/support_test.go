package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podagent/podagent/pkg/podapi"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// serveTest serves an agent on a unix socket until the test ends, and returns
// its workdir and its address.
func serveTest(t *testing.T, change func(*Config)) (workdir, socket string) {
	t.Helper()
	dir := t.TempDir()
	workdir, socket = filepath.Join(dir, "work"), filepath.Join(dir, "s")
	if err := os.Mkdir(workdir, 0o755); err != nil {
		t.Fatal(err)
	}
	config := Config{
		Listen: []string{"unix:" + socket}, Workdir: workdir, Env: os.Environ(),
		Version: "test", Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&config)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, config) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !(errors.Is(err, errStopped) && config.endsItself()) {
			t.Errorf("Serve: %v", err)
		}
	})
	awaitListener(t, config.Listen[0])
	if config.Health != "" {
		awaitListener(t, config.Health)
	}
	return workdir, socket
}

func awaitListener(t *testing.T, address string) {
	t.Helper()
	network, addr, err := splitAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial(network, addr)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// raw connects without the Go client, to send messages that it would not send.
func raw(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func dial(t *testing.T, opts podapi.DialOptions) *podapi.Client {
	t.Helper()
	client, err := podapi.Dial(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func unixDialer(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

func second[A any](_ A, err error) error { return err }
