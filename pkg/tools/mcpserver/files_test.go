package mcpserver_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

func TestResourcesMayNotBeCachedForOthers(t *testing.T) {
	t.Parallel()
	sandbox := launchertest.Sandbox(t)
	c, _, _ := run(t.Context(), t, sandbox, tools.Options{})
	if err := sandbox.WriteFile(t.Context(), "f", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file://" + sandbox.Workdir + "/f"})
	if err != nil {
		t.Fatal(err)
	}
	if r.CacheScope != "private" || r.TTLMs != 0 {
		t.Errorf("it may be cached: %q, for %d ms", r.CacheScope, r.TTLMs)
	}
}

func TestFilesAreResources(t *testing.T) {
	t.Parallel()
	sandbox := launchertest.Sandbox(t)
	c, _, _ := run(t.Context(), t, sandbox, tools.Options{Secrets: map[string]secret.Provider{"KEY": secret.Static("s3cr3t-v4lue")}})
	for name, content := range map[string]string{
		"a b.txt": "héllo\n", "bin": "\x00\xff", "page.html": "<p>", "empty": "",
		"secret.txt": "it is s3cr3t-v4lue.", "secret.html": "\xffs3cr3t-v4lue",
		"large": strings.Repeat("x", 8<<20), "too large": strings.Repeat("x", 8<<20+1),
	} {
		if err := sandbox.WriteFile(t.Context(), name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]mcp.ResourceContents{
		"a%20b.txt":   {MIMEType: "text/plain; charset=utf-8", Text: "héllo\n"},
		"bin":         {MIMEType: "application/octet-stream", Blob: []byte("\x00\xff")},
		"page.html":   {MIMEType: "text/html; charset=utf-8", Text: "<p>"},
		"empty":       {Blob: []byte{}},
		"secret.txt":  {MIMEType: "text/plain; charset=utf-8", Text: "it is [REDACTED:KEY]."},
		"secret.html": {Text: "[application/octet-stream, 13 bytes: withheld, because it contains a secret]"},
		"large":       {Text: strings.Repeat("x", 8<<20)},
	} {
		want.URI = "file://" + sandbox.Workdir + "/" + name
		r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: want.URI})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff([]*mcp.ResourceContents{&want}, r.Contents); diff != "" {
			t.Errorf("%s (-want +got):\n%.1000s", name, diff)
		}
	}
	for uri, want := range map[string]string{
		"file://" + sandbox.Workdir + "/none":        "Resource not found",
		"file://" + sandbox.Workdir + "/too%20large": "use the tool Read to read a part of it",
		"file://" + sandbox.Workdir:                  "is a directory",
		"file://elsewhere/etc/passwd":                "is not the URI of a file",
	} {
		if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
