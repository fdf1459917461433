// Command agentsandboxclient uses a sandbox as a program does that is written for agent-sandbox: with its
// client for Go, and with that of sandboxd's gRPC. It says on its standard output what it saw of each
// operation, a line of JSON each. It is in this module for its dependencies.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/agent-sandbox/clients/go/sandbox"
	processv1 "sigs.k8s.io/agent-sandbox/packages/sandboxd/spec/process/v1"
)

// hung is more than the walk takes.
const hung = 5 * time.Minute

func main() {
	var w walk
	flag.StringVar(&w.kubeconfig, "kubeconfig", "", "of who makes claims")
	flag.StringVar(&w.namespace, "namespace", "", "of the warm pool")
	flag.StringVar(&w.pool, "pool", "", "the warm pool")
	flag.StringVar(&w.router, "router", "", "the URL of the router, with a key as its password")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	if err := w.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type walk struct {
	kubeconfig, namespace, pool, router string

	sandbox *sandbox.Sandbox
	grpc    processv1.ProcessServiceClient
	conn    *grpc.ClientConn
}

// works says that operations were seen to work.
func works(operations ...string) {
	for _, o := range operations {
		_ = json.NewEncoder(os.Stdout).Encode(map[string]string{"operation": o, "outcome": "works"})
	}
}

func (w *walk) run(ctx context.Context) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		return err
	}
	w.sandbox, err = sandbox.New(ctx, sandbox.Options{WarmPoolName: w.pool, Namespace: w.namespace, RestConfig: config, APIURL: w.router, Quiet: true})
	if err != nil {
		return err
	}
	if err := w.sandbox.Open(ctx); err != nil {
		return fmt.Errorf("opening a sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, w.sandbox.Close(context.WithoutCancel(ctx))) }()
	works("Open, Close")
	if err := w.dial(); err != nil {
		return err
	}
	defer w.conn.Close()
	for _, step := range []func(context.Context) error{w.commands, w.files, w.sandboxdFiles, w.execute, w.streams, w.terminal, w.disconnect, w.watch} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dial makes the connection for sandboxd's gRPC, by the router's headers.
func (w *walk) dial() error {
	u, err := url.Parse(w.router)
	if err != nil {
		return err
	}
	key, _ := u.User.Password()
	routed := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key, "x-sandbox-id", w.sandbox.SandboxName(), "x-sandbox-namespace", w.namespace, "x-sandbox-port", "9090")
	}
	w.conn, err = grpc.NewClient(u.Host, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return call(routed(ctx), method, in, out, conn, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(routed(ctx), desc, conn, method, opts...)
		}))
	w.grpc = processv1.NewProcessServiceClient(w.conn)
	return err
}

func (w *walk) commands(ctx context.Context) error {
	r, err := w.sandbox.Run(ctx, `sh -c 'echo out; echo err >&2; exit 3'`)
	if err != nil || r.Stdout != "out\n" || r.Stderr != "err\n" || r.ExitCode != 3 {
		return fmt.Errorf("the call Run: %+v: %w", r, err)
	}
	if r, err = w.sandbox.Run(ctx, "no-such-command"); err != nil || r.ExitCode != 1 || r.Stderr == "" {
		return fmt.Errorf("the call Run of a command that is not there: %+v: %w", r, err)
	}
	works("Run")
	return nil
}

func (w *walk) files(ctx context.Context) error {
	large := bytes.Repeat([]byte("0123456789"), 1<<20)
	for name, content := range map[string][]byte{"small.txt": []byte("content"), "empty": nil, "large": large} {
		if err := w.sandbox.Write(ctx, name, content); err != nil {
			return err
		}
		if got, err := w.sandbox.Read(ctx, name); err != nil || !bytes.Equal(got, content) {
			return fmt.Errorf("the call Read of %s: %d bytes: %w", name, len(got), err)
		}
	}
	if err := w.sandbox.WriteReader(ctx, "streamed", bytes.NewReader(large)); err != nil {
		return err
	}
	if got, err := w.sandbox.Read(ctx, "streamed"); err != nil || !bytes.Equal(got, large) {
		return fmt.Errorf("the call Read of what was streamed: %d bytes: %w", len(got), err)
	}
	list, err := w.sandbox.List(ctx, ".")
	if err != nil || len(list) != 4 || list[0].Name != "empty" || list[1].Size != int64(len(large)) || list[0].Type != sandbox.FileTypeFile || list[0].ModTime.IsZero() {
		return fmt.Errorf("the call List: %+v: %w", list, err)
	}
	is, err := w.sandbox.Exists(ctx, "small.txt")
	isNot, otherErr := w.sandbox.Exists(ctx, "none")
	if err = errors.Join(err, otherErr); err != nil || !is || isNot {
		return fmt.Errorf("the call Exists: %t %t: %w", is, isNot, err)
	}
	if _, err := w.sandbox.Read(ctx, "none"); !isStatus(err, http.StatusNotFound) {
		return fmt.Errorf("the call Read of a file that is not there: %w", err)
	}
	works("Write", "WriteReader", "Read", "List", "Exists")
	return nil
}

func isStatus(err error, code int) bool {
	of, ok := errors.AsType[*sandbox.HTTPError](err)
	return ok && of.StatusCode == code
}

// sandboxdFiles reaches sandboxd's REST by a path: this client sends no headers to it.
func (w *walk) sandboxdFiles(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		return err
	}
	client, err := sandbox.NewClient(ctx, sandbox.Options{
		RestConfig: config, Runtime: sandbox.RuntimeSandboxd, Quiet: true,
		APIURL: fmt.Sprintf("%s/agent-sandbox/%s/%s/8080", w.router, w.namespace, w.sandbox.SandboxName()),
	})
	if err != nil {
		return err
	}
	s, err := client.GetSandbox(ctx, w.sandbox.ClaimName(), w.namespace)
	if err != nil {
		return err
	}
	defer func() { _ = s.Disconnect(ctx) }()
	if err := s.Write(ctx, "dir/by/path", []byte("content")); err != nil {
		return err
	}
	if got, err := s.Read(ctx, "dir/by/path"); err != nil || string(got) != "content" {
		return fmt.Errorf("the call Read by sandboxd: %q: %w", got, err)
	}
	list, err := s.List(ctx, "dir/by")
	if err != nil || len(list) != 1 || list[0].Name != "path" || list[0].Mode == "" {
		return fmt.Errorf("the call List by sandboxd: %+v: %w", list, err)
	}
	is, err := s.Exists(ctx, "dir")
	isNot, otherErr := s.Exists(ctx, "none")
	if err = errors.Join(err, otherErr); err != nil || !is || isNot {
		return fmt.Errorf("the call Exists by sandboxd: %t %t: %w", is, isNot, err)
	}
	if err := s.Delete(ctx, "dir", false); !isStatus(err, http.StatusConflict) {
		return fmt.Errorf("the call Delete of a directory that is not empty: %w", err)
	}
	if err := s.Delete(ctx, "dir", true); err != nil {
		return err
	}
	works("sandboxd: Write", "sandboxd: Read", "sandboxd: List", "sandboxd: Exists", "sandboxd: Delete")
	return nil
}

func script(text string) *processv1.ProcessConfig {
	return &processv1.ProcessConfig{Command: []string{"/bin/sh", "-c", text}, EnvVars: map[string]string{"GREETING": "hello"}}
}

func (w *walk) execute(ctx context.Context) error {
	r, err := w.grpc.Execute(ctx, &processv1.ExecuteRequest{Config: script("echo $GREETING; echo err >&2; exit 3")})
	if err != nil || string(r.Stdout) != "hello\n" || string(r.Stderr) != "err\n" || r.ExitCode != 3 {
		return fmt.Errorf("the call Execute: %v: %w", r, err)
	}
	if _, err := w.grpc.Execute(ctx, &processv1.ExecuteRequest{Config: &processv1.ProcessConfig{Command: []string{"/no/such"}}}); status.Code(err) != codes.NotFound {
		return fmt.Errorf("the call Execute of a command that is not there: %w", err)
	}
	works("ProcessService.Execute")
	return nil
}

// process is one that was started, and what it has written so far.
type process struct {
	grpc.ServerStreamingClient[processv1.StartResponse]
	id      int32
	written strings.Builder
	exit    *processv1.ExitEvent
}

func (w *walk) start(ctx context.Context, in *processv1.StartRequest) (*process, error) {
	stream, err := w.grpc.Start(ctx, in)
	if err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil || first.GetInit() == nil {
		return nil, fmt.Errorf("the first event is %v: %w", first, err)
	}
	return &process{ServerStreamingClient: stream, id: first.GetInit().GetProcessId()}, nil
}

// until reads on until a text was written, or to the end without one.
func (p *process) until(text string) error {
	for text == "" || !strings.Contains(p.written.String(), text) {
		event, err := p.Recv()
		if err == io.EOF && text == "" && p.exit != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%q was written, and not %q: %w", p.written.String(), text, err)
		}
		p.written.Write(event.GetStdout())
		p.written.Write(event.GetStderr())
		p.exit = event.GetExit()
	}
	return nil
}

func (w *walk) streams(ctx context.Context) error {
	p, err := w.start(ctx, &processv1.StartRequest{Config: script("echo ready; cat; exit 4")})
	if err != nil {
		return err
	}
	_, err = w.grpc.WriteStdin(ctx, &processv1.WriteStdinRequest{ProcessId: p.id, Payload: &processv1.WriteStdinRequest_Input{Input: []byte("a line\n")}})
	if err = errors.Join(err, p.until("a line\n")); err != nil {
		return fmt.Errorf("the call WriteStdin: %w", err)
	}
	_, err = w.grpc.WriteStdin(ctx, &processv1.WriteStdinRequest{ProcessId: p.id, Payload: &processv1.WriteStdinRequest_Eof{}})
	if err = errors.Join(err, p.until("")); err != nil || p.exit.GetExitCode() != 4 {
		return fmt.Errorf("the end is %v: %w", p.exit, err)
	}
	if p, err = w.start(ctx, &processv1.StartRequest{Config: script("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")}); err == nil {
		err = p.until("ready")
	}
	if err != nil {
		return err
	}
	_, err = w.grpc.SendSignal(ctx, &processv1.SendSignalRequest{ProcessId: p.id, Signal: processv1.Signal_SIGNAL_SIGTERM})
	if err = errors.Join(err, p.until("")); err != nil {
		return fmt.Errorf("the call SendSignal: %w", err)
	}
	if _, err = w.grpc.SendSignal(ctx, &processv1.SendSignalRequest{ProcessId: p.id, Signal: processv1.Signal_SIGNAL_SIGKILL}); status.Code(err) != codes.NotFound {
		return fmt.Errorf("the call SendSignal to a process that has ended: %w", err)
	}
	works("ProcessService.Start", "ProcessService.WriteStdin", "ProcessService.SendSignal")
	return nil
}

func (w *walk) terminal(ctx context.Context) error {
	p, err := w.start(ctx, &processv1.StartRequest{Config: script("stty size; read line; stty size"), Pty: &processv1.PTY{Cols: 100, Rows: 30}})
	if err == nil {
		err = p.until("30 100")
	}
	if err == nil {
		_, err = w.grpc.ResizeTTY(ctx, &processv1.ResizeTTYRequest{ProcessId: p.id, Cols: 120, Rows: 40})
	}
	if err == nil {
		_, err = w.grpc.WriteStdin(ctx, &processv1.WriteStdinRequest{ProcessId: p.id, Payload: &processv1.WriteStdinRequest_Input{Input: []byte("\n")}})
	}
	if err == nil {
		err = p.until("40 120")
	}
	if err != nil {
		return fmt.Errorf("a terminal: %w", err)
	}
	works("ProcessService.ResizeTTY")
	return p.until("")
}

// disconnect leaves a process, which ends with its stream.
func (w *walk) disconnect(ctx context.Context) error {
	within, leave := context.WithCancel(ctx)
	defer leave()
	p, err := w.start(within, &processv1.StartRequest{Config: script("echo $$ ready; sleep 1000")})
	if err == nil {
		err = p.until("ready")
	}
	if err != nil {
		return err
	}
	leave()
	for status.Code(err) != codes.NotFound { // until then it takes the signal
		if ctx.Err() != nil {
			return fmt.Errorf("a process whose stream was left runs on: %w", err)
		}
		_, err = w.grpc.ResizeTTY(ctx, &processv1.ResizeTTYRequest{ProcessId: p.id, Cols: 1, Rows: 1})
	}
	works("ProcessService.Start: leaving")
	return nil
}
