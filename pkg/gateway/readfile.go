package gateway

import (
	"errors"
	"net/http"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway/internal/content"
)

// errReplaced says that a file is not the one any more that an answer is about to describe.
var errReplaced = &busy{&refusal{http.StatusServiceUnavailable, "busy", content.ErrReplaced.Error()}, retryAfter}

// readFile answers with one state of a file: its etag, its size and all its bytes belong together.
func (c *rawCall) readFile() (err error) {
	c.began, err = content.Serve(c.w, c.r.WithContext(c), c.sandbox.Client, c.query("path"), func(header http.Header, a fsops.Attr) {
		header.Set("ETag", quoted(a.ETag))
		header.Set("Content-Type", "application/octet-stream")
		header.Set("X-Content-Type-Options", "nosniff")
	})
	if errors.Is(err, content.ErrReplaced) {
		return errReplaced
	}
	return err
}
