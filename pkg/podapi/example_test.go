package podapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// sandbox returns a sandbox that is removed when it is closed.
func sandbox(ctx context.Context) *launcher.Sandbox {
	s, err := new(launcher.Local).Launch(ctx, launcher.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

func Example() {
	ctx := context.Background()
	s := sandbox(ctx) // a *launcher.Sandbox embeds the client
	defer s.Close()

	if err := s.WriteFile(ctx, "greeting", []byte("hello"), 0o644); err != nil {
		log.Fatal(err)
	}
	out, err := s.Command(ctx, "cat", "greeting").Output()
	fmt.Println(string(out), err)
	// Output: hello <nil>
}

// A non-zero exit is a result, with its reason.
func ExampleExitError() {
	ctx := context.Background()
	s := sandbox(ctx)
	defer s.Close()

	cmd := s.Shell(ctx, "echo working; sleep 60")
	cmd.Timeout = 10 * time.Second
	out, err := cmd.Output()
	var exit *podapi.ExitError
	if errors.As(err, &exit) {
		fmt.Printf("%s after %q", exit.Reason, out)
	}
	// Output: timed out after "working\n"
}

func ExampleClient_Command() {
	ctx := context.Background()
	s := sandbox(ctx)
	defer s.Close()

	cmd := s.Command(ctx, "tr", "a-z", "A-Z")
	cmd.Stdin = strings.NewReader("streamed as bytes\n")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}
	// Output: STREAMED AS BYTES
}

func ExampleClient_Create() {
	ctx := context.Background()
	s := sandbox(ctx)
	defer s.Close()

	w, err := s.Create(ctx, "dir/large", fsops.WriteOptions{Parents: true})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close() // leaves everything as it was, unless Commit has succeeded
	if _, err := io.Copy(w, bytes.NewReader(make([]byte, 3<<20))); err != nil {
		log.Fatal(err)
	}
	result, err := w.Commit()
	fmt.Println(result.Attr.Size, result.Created, err)
	// Output: 3145728 true <nil>
}

// A client of net/http, all of whose connections lead to one port of the sandbox.
func ExampleClient_Dial() {
	ctx := context.Background()
	// A sandbox that nothing isolates has this machine's ports, and so this server.
	s, err := (&launcher.Local{Isolation: isolation.Off}).Launch(ctx, launcher.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	server := httptest.NewServer(http.FileServerFS(fstest.MapFS{"hello": {Data: []byte("hello, world")}}))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port

	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return s.Dial(ctx, port)
	}}
	defer transport.CloseIdleConnections()
	r, err := (&http.Client{Transport: transport}).Get("http://sandbox/hello")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	fmt.Println(string(body), err)
	// Output: hello, world <nil>
}

func ExampleClient_Edit() {
	ctx := context.Background()
	s := sandbox(ctx)
	defer s.Close()

	if err := s.WriteFile(ctx, "f", []byte("one\ntwo\none\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	_, err := s.Edit(ctx, "f", []fsops.Edit{{Old: []byte("one"), New: []byte("1")}}, fsops.EditOptions{})
	fmt.Println(err)
	r, err := s.Edit(ctx, "f", []fsops.Edit{{Old: []byte("two"), New: []byte("2")}}, fsops.EditOptions{})
	fmt.Printf("%s%v", r.Diff, err)
	// Output:
	// edit f: old text occurs 2 times, not once
	// --- a/f
	// +++ b/f
	// @@ -1,3 +1,3 @@
	//  one
	// -two
	// +2
	//  one
	// <nil>
}

func ExampleClient_Grep() {
	ctx := context.Background()
	s := sandbox(ctx)
	defer s.Close()

	if _, err := s.Write(ctx, "src/a.go", strings.NewReader("package a\n\nfunc Alpha() {}\n"), fsops.WriteOptions{Parents: true}); err != nil {
		log.Fatal(err)
	}
	for r, err := range s.Grep(ctx, `func \w+`, fsops.GrepOptions{Include: []string{"*.go"}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s:%d: %s\n", r.Path, r.Line, r.Text)
	}
	// Output: src/a.go:3: func Alpha() {}
}

// Errors are those that the same call would give locally.
func ExampleClient_ReadFile() {
	ctx := context.Background()
	s := sandbox(ctx)
	defer s.Close()

	_, err := s.ReadFile(ctx, "missing")
	fmt.Println(err, errors.Is(err, fs.ErrNotExist))
	// Output: read missing: no such file or directory true
}

func ExampleClient_FS() {
	ctx := context.Background()
	s := sandbox(ctx)
	defer s.Close()

	if _, err := s.Write(ctx, "docs/readme.md", strings.NewReader("# Title\n"), fsops.WriteOptions{Parents: true}); err != nil {
		log.Fatal(err)
	}
	names, err := fs.Glob(s.FS(ctx, "docs"), "*.md")
	fmt.Println(names, err)
	// Output: [readme.md] <nil>
}
