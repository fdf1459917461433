package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// A call by E2B's SDK may take this much longer than the same one by the gateway's REST, in
// milliseconds.
const (
	e2bCommand = 2.5
	e2bFile    = 3
)

// BenchmarkGatewayE2B measures what E2B's SDK for JavaScript, by the gateway's face for it, takes
// beside plain requests from the same process.
func BenchmarkGatewayE2B(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	d := openDoor(b, c.By(b, launcher.ByPortForward).Launcher(), c.Spec(""))
	client := startE2BClient(b, d.url)
	for _, call := range []struct {
		what, name string
		most       float64
	}{
		{"bash -l -c true", "exec", e2bCommand},
		{"write a file of 4 KiB", "write", e2bFile},
		{"read a file of 4 KiB", "read", e2bFile},
	} {
		r := compare(b, "calls", call.what+", by E2B's SDK and the gateway", 200,
			side{name: "E2B's SDK", timed: client.call("sdk " + call.name)},
			side{name: "REST from Node.js", timed: client.call("rest " + call.name)},
		)
		r.limit(fmt.Sprintf("REST + %v ms", call.most), r.Peers[0].Median+call.most)
	}
	if _, err := client.call("kill")(); err != nil {
		b.Fatal(err)
	}
}

// e2bClient is a program with E2B's SDK (testdata/e2bclient), whose sandbox is there.
type e2bClient struct {
	in  io.Writer
	out *bufio.Reader
}

func startE2BClient(b *testing.B, url string) *e2bClient {
	b.Helper()
	dir := b.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/e2bclient")); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		b.Fatalf("npm cannot install E2B's SDK: %v\n%s", err, out)
	}
	cmd := exec.Command("node", "client.mjs", doorToken)
	cmd.Dir, cmd.Stderr = dir, b.Output()
	cmd.Env = append(os.Environ(), "E2B_API_KEY="+doorToken, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	client := &e2bClient{in, bufio.NewReader(out)}
	if line, err := client.out.ReadString('\n'); err != nil || line != "ready\n" {
		b.Fatalf("E2B's SDK has no sandbox: %q, %v", line, err)
	}
	return client
}

// call returns a call that the program measures itself.
func (c *e2bClient) call(name string) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		if _, err := fmt.Fprintln(c.in, name); err != nil {
			return 0, err
		}
		line, err := c.out.ReadString('\n')
		if err != nil {
			return 0, err
		}
		took, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %s", name, line)
		}
		return time.Duration(took), nil
	}
}
