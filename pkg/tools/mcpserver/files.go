package mcpserver

import (
	"bytes"
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
)

// maxResource bounds a file that is read as a resource: it is one message, with
// a third more if it is no text.
const maxResource = 8 << 20

// files are the files of a sandbox as resources.
type files struct{ sandbox *launcher.Sandbox }

func (f files) read(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	name, err := pathOf(r.Params.URI)
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	_, err = f.sandbox.Read(ctx, name, fsops.ReadOptions{Length: maxResource + 1}, &data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	case err != nil:
		return nil, err
	case data.Len() > maxResource:
		return nil, fmt.Errorf("%s is larger than %d MiB: the tool Read reads a part of it: %w", name, maxResource>>20, syscall.EFBIG)
	}
	content := &mcp.ResourceContents{URI: r.Params.URI, MIMEType: mime.TypeByExtension(path.Ext(name))}
	if utf8.Valid(data.Bytes()) {
		content.Text = data.String()
	} else {
		content.Blob = data.Bytes()
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

// pathOf returns the path in a file's URI.
func pathOf(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", err
	}
	if u.Scheme != "file" || u.Host != "" || !path.IsAbs(u.Path) {
		return "", fmt.Errorf("%q is not the URI of a file: file:///PATH is", uri)
	}
	return u.Path, nil
}
