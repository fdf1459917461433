package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/url"
	"path"
	"syscall"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools"
)

// files serves the files of a sandbox as resources.
type files struct {
	sandbox *launcher.Sandbox
	session *tools.Session
}

func (f files) read(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	name, err := pathOf(r.Params.URI)
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	_, err = f.sandbox.Read(ctx, name, &data, fsops.ReadOptions{Length: maxResource + 1})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	case err != nil:
		return nil, f.session.CleanError(ctx, err)
	case data.Len() > maxResource:
		return nil, fmt.Errorf("%s is larger than %d MiB: use the tool Read to read a part of it: %w", name, maxResource>>20, syscall.EFBIG)
	}
	content, err := f.content(ctx, name, data.Bytes())
	if err != nil {
		return nil, err
	}
	content.URI = r.Params.URI
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}, Cacheable: private}, nil
}

// private says that no proxy may keep a file for other users.
var private = mcp.Cacheable{CacheScope: "private"}

// content returns a file's content, without secrets.
func (f files) content(ctx context.Context, name string, data []byte) (*mcp.ResourceContents, error) {
	content := tools.Content{Text: string(data)}
	if !utf8.Valid(data) {
		content = tools.Content{MediaType: "application/octet-stream", Data: data}
	}
	r, err := f.session.Clean(ctx, tools.Result{Content: []tools.Content{content}})
	if err != nil {
		return nil, err
	}
	clean := r.Content[0]
	kind := cmp.Or(mime.TypeByExtension(path.Ext(name)), clean.MediaType)
	if clean.MediaType != content.MediaType {
		kind = "" // Clean replaced the data by a text that says why
	}
	out := &mcp.ResourceContents{MIMEType: kind, Text: clean.Text, Blob: clean.Data}
	if out.Text == "" && out.Blob == nil {
		out.Blob = []byte{} // the protocol requires one of them, and an empty text would be left out
	}
	return out, nil
}

// pathOf returns the path in a file's URI.
func pathOf(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", err
	}
	if u.Scheme != "file" || u.Host != "" || !path.IsAbs(u.Path) {
		return "", fmt.Errorf("%q is not the URI of a file: it must be file:///PATH", uri)
	}
	return u.Path, nil
}
