package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/cmd/podagent/internal/egress"
	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

func TestCommandsBehindAFenceReachTheProxyAlone(t *testing.T) {
	_, socket := serveTest(t, func(c *Config) { c.Egress.Mode = wayout.Mode(wayout.Landlock) })
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	info, err := client.Info(t.Context())
	if err != nil || info.Egress.Level != wayout.Landlock || info.Egress.Served {
		t.Fatalf("Info says %+v, %v", info.Egress, err)
	}
	connects := func(port int) error {
		return client.Command(t.Context(), "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", port)).Run()
	}
	if err := connects(info.Egress.Port); err != nil {
		t.Errorf("a command cannot connect to the proxy: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := connects(l.Addr().(*net.TCPAddr).Port); err == nil {
		t.Error("a command connects to another port")
	}
	out, err := client.Command(t.Context(), "sh", "-c", "echo $https_proxy").Output()
	if want := fmt.Sprintf("http://127.0.0.1:%d\n", info.Egress.Port); string(out) != want || err != nil {
		t.Errorf("a command's proxy is %q, %v, want %q", out, err, want)
	}
}

func TestAgentEndsWhereItsLevelOfEgressCannotBe(t *testing.T) {
	for what, config := range map[string]Config{
		"network, where no pod is":      {Egress: wayout.Config{Mode: wayout.Auto, Require: wayout.Network}},
		"landlock, without confinement": {Egress: wayout.Config{Mode: wayout.Mode(wayout.Landlock)}, Confine: confine.Off},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		dir := t.TempDir()
		config.Listen, config.Workdir, config.Log = []string{"unix:" + filepath.Join(dir, "s")}, dir, slog.New(slog.DiscardHandler)
		config.Main = []string{"touch", filepath.Join(dir, "main-ran")}
		ctx, cancel := context.WithTimeoutCause(t.Context(), hung, errors.New("hung"))
		defer cancel()
		err := Serve(ctx, config)
		if err == nil || !strings.Contains(err.Error(), "processes could leave the sandbox") {
			t.Errorf("%s: the agent serves, or ends with %v", what, err)
		}
		if ran, _ := filepath.Glob(filepath.Join(dir, "main-ran")); ran != nil {
			t.Errorf("%s: its command ran", what)
		}
	}
}

// With credentials, git asks a relay on the loopback, which connects by the proxy.
func TestCheckoutWithCredentialsWorksBehindAFence(t *testing.T) {
	_, socket := serveTest(t, func(c *Config) { c.Egress.Mode = wayout.Mode(wayout.Landlock) })
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	l, _ := serveEgress(t, client, farend.Options{})
	asked := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		user, _, _ := r.BasicAuth()
		asked <- user + " " + r.URL.String()
		_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}()
	info, err := client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Checkout(t.Context(), podapi.Checkout{Dir: info.Workdir, URL: "http://git.example/one.git", Username: "me", Password: "secret"})
	if err == nil {
		t.Error("a repository that is not there was checked out")
	}
	select {
	case got := <-asked:
		if want := "me http://git.example/one.git/info/refs?service=git-upload-pack"; got != want {
			t.Errorf("the far end was asked for %q, want %q", got, want)
		}
	default:
		t.Errorf("the far end was asked for nothing: %v", err)
	}
}

// Each time without a far end is as long as programs wait for the next one, however many there were before.
func TestVariablesOfTheWayOutOutliveShortGaps(t *testing.T) {
	proxy, err := egress.Listen(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	synctest.Test(t, func(t *testing.T) {
		a := &Agent{wayOut: &wayOut{}}
		want := func(has bool) {
			t.Helper()
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			if slices.Contains(a.env, "FROM=farend") != has {
				t.Errorf("%v after the start, processes get %q", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), a.env)
			}
		}
		serve := func() { a.adopt(proxy, []string{"FROM=farend"}) }
		serve()
		a.left(proxy, false)
		time.Sleep(egress.Patience / 2)
		serve()
		a.left(proxy, false)
		time.Sleep(egress.Patience * 3 / 4) // the first gap began long ago
		want(true)
		time.Sleep(egress.Patience)
		want(false)
		serve()
		a.left(proxy, true)
		want(false)
	})
}
