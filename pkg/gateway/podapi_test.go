package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// client returns a client of a sandbox by the gateway.
func (d *door) client(token, sandbox string) *podapi.Client {
	d.Helper()
	return clientBy(d.T, d.url, token, sandbox)
}

func clientBy(t testing.TB, url, token, sandbox string) *podapi.Client {
	t.Helper()
	address := strings.TrimPrefix(url, "http://")
	more := []string{"authorization", "Bearer " + token, "podagent-sandbox", sandbox}
	client, err := podapi.Dial(podapi.DialOptions{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		GRPC: []grpc.DialOption{
			grpc.WithAuthority(address),
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return call(metadata.AppendToOutgoingContext(ctx, more...), method, in, out, conn, opts...)
			}),
			grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				return open(metadata.AppendToOutgoingContext(ctx, more...), desc, conn, method, opts...)
			}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestPodapi(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	c, ctx := d.client("a", "job-1"), t.Context()
	content := bytes.Repeat([]byte("0123456789"), 1<<20)
	if err := c.WriteFile(ctx, "large", content, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReadFile(ctx, "large"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes come back: %v", len(got), err)
	}
	var pathErr *fs.PathError
	if _, err := c.ReadFile(ctx, "none"); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &pathErr) || pathErr.Path != "none" {
		t.Errorf("a file that is not there: %v", err)
	}
	cat := c.Command(ctx, "cat")
	cat.Stdin = bytes.NewReader(content)
	if got, err := cat.Output(); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes come back from a command: %v", len(got), err)
	}
	var exit *podapi.ExitError
	if _, err := c.Shell(ctx, "echo bad >&2; exit 7").Output(); !errors.As(err, &exit) || exit.Code != 7 || string(exit.Stderr) != "bad\n" {
		t.Errorf("a command that fails: %v", err)
	}
	var found []string
	for match, err := range c.Glob(ctx, "l*", fsops.GlobOptions{}) {
		if err != nil {
			t.Error(err)
		}
		found = append(found, match.Path)
	}
	if fmt.Sprint(found) != "[large]" {
		t.Errorf("found %q", found)
	}
	var archive bytes.Buffer
	if _, err := c.PullTar(ctx, ".", &archive, fsops.ArchiveOptions{}); err != nil {
		t.Error(err)
	}
	if stats, err := c.PushTar(ctx, &archive, "copy", fsops.ExtractOptions{}); err != nil || stats.Bytes != int64(len(content)) {
		t.Errorf("%+v: %v", stats, err)
	}
}
