package e2e

// The clients of mcp_test.go, and the server that they connect to.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

const (
	mcpSecret = "s3cr3t-v4lue-123" // 16 bytes
	mcpToken  = "token-for-tests-only"
)

// mcpReport is what a client received.
type mcpReport struct {
	Tools []string    `json:"tools"`
	Calls []mcpResult `json:"calls"`
	Reads []mcpRead   `json:"reads"`
}

type mcpResult struct {
	Text     string `json:"text"`
	IsError  bool   `json:"isError"`
	Progress string `json:"progress"`
	Error    string `json:"error"`
}

type mcpRead struct {
	Text  string `json:"text"`
	Blob  string `json:"blob"`
	Error string `json:"error"`
}

// mcpClient connects to a program, or to url if that is not empty, and makes the
// calls.
type mcpClient func(t *testing.T, p *mcpProgram, url string) mcpReport

// mcpProgram is "orchestrator mcp" for a cluster.
type mcpProgram struct {
	args []string
	env  []string
}

func newMCPProgram(t *testing.T, path string, c *launchertest.Cluster) *mcpProgram {
	return &mcpProgram{
		args: []string{path, "mcp", "--command", "count=/usr/bin/wc", "--secret", "API_TOKEN=env:API_TOKEN"},
		env: append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image,
			"XDG_CONFIG_HOME="+t.TempDir(), "API_TOKEN="+mcpSecret, "PODAGENT_MCP_TOKEN="+mcpToken),
	}
}

func (p *mcpProgram) command(args ...string) *exec.Cmd {
	args = append(p.args[1:len(p.args):len(p.args)], args...)
	cmd := exec.Command(p.args[0], args...)
	cmd.Env = p.env
	return cmd
}

// serve serves over HTTP until the test ends, and returns the URL.
func (p *mcpProgram) serve(t *testing.T) string {
	t.Helper()
	return serve(t, p.command("--http", "127.0.0.1:0"))
}

// serve runs a server until the test ends, and returns the URL that it prints.
func serve(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
			t.Errorf("the server ended with %v", err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// nodeClient is the directory of the TypeScript SDK's client.
type nodeClient string

// installTimeout bounds the installation, which takes some seconds on an idle
// machine, and a few minutes on one that is busy with other tests.
const installTimeout = 10 * time.Minute

// installMCPClient installs the client of the TypeScript SDK.
func installMCPClient(t *testing.T) nodeClient {
	t.Helper()
	return nodeClient(installNode(t, "testdata/mcpclient"))
}

// installNode copies a program for Node, installs what it needs from npm's registry or
// cache, and returns its directory.
func installNode(t *testing.T, from string) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s needs node and npm: \"make needs\" installs them: %v", from, err)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm cannot install what %s needs: %v\n%s", from, err, out)
	}
	return dir
}

func (n nodeClient) run(t *testing.T, p *mcpProgram, url string) (report mcpReport) {
	args := []string{filepath.Join(string(n), "client.mjs")}
	if url != "" {
		args = append(args, url)
	} else {
		args = append(args, p.args...)
	}
	var uris []string
	for _, read := range mcpReads {
		uris = append(uris, read.uri)
	}
	plan, err := json.Marshal(map[string]any{"calls": mcpSteps, "reads": uris})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Env, cmd.Stdin, cmd.Stderr = p.env, bytes.NewReader(plan), t.Output()
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return report
}

// runGoClient runs the client of the official Go SDK.
func runGoClient(t *testing.T, p *mcpProgram, url string) (report mcpReport) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	progress := make(chan string, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	})
	session, err := client.Connect(ctx, p.transport(t, url), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		report.Tools = append(report.Tools, tool.Name)
	}
	var id string
	for i, step := range mcpSteps {
		result := callByGo(ctx, session, i, step, id, progress)
		if found := commandID.FindString(result.Text); found != "" {
			id = found
		}
		report.Calls = append(report.Calls, result)
	}
	for _, read := range mcpReads {
		report.Reads = append(report.Reads, readByGo(ctx, session, read.uri))
	}
	return report
}

func (p *mcpProgram) transport(t *testing.T, url string) mcp.Transport {
	if url != "" {
		return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(mcpToken)}}
	}
	cmd := p.command()
	cmd.Stderr = t.Output()
	return &mcp.CommandTransport{Command: cmd}
}

// bearer sends a token in each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// commandID matches the id of a command in the background.
var commandID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// callByGo makes the call with this number.
func callByGo(ctx context.Context, s *mcp.ClientSession, number int, step mcpStep, id string, progress <-chan string) (result mcpResult) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	heard := make(chan string, 1)
	go func() {
		var all string
		defer func() { heard <- all }()
		for {
			select {
			case text := <-progress:
				if all += text; step.Cancel {
					cancel()
				}
			case <-ended:
				return
			}
		}
	}()
	input, _ := json.Marshal(step.Input) // it has only strings and numbers
	params := &mcp.CallToolParams{Name: step.Tool, Arguments: json.RawMessage(strings.ReplaceAll(string(input), `"ID"`, `"`+id+`"`))}
	params.SetProgressToken(number)
	r, err := s.CallTool(ctx, params)
	close(ended)
	result.Progress = <-heard
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.IsError = r.IsError
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			result.Text += text.Text
		}
	}
	return result
}

func readByGo(ctx context.Context, s *mcp.ClientSession, uri string) (read mcpRead) {
	r, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		read.Error = err.Error()
		return read
	}
	content := r.Contents[0]
	read.Text, read.Blob = content.Text, base64.StdEncoding.EncodeToString(content.Blob)
	return read
}
