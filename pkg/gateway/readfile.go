package gateway

import (
	"errors"
	"net/http"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway/internal/content"
)

// readFile answers with one state of a file: its etag, its size and all its bytes belong together.
func (c *rawCall) readFile() (err error) {
	c.began, err = content.Serve(c.w, c.r.WithContext(c), c.sandbox.Client, c.query("path"), func(header http.Header, a fsops.Attr) {
		header.Set("ETag", quoted(a.ETag))
		header.Set("Content-Type", "application/octet-stream")
		header.Set("X-Content-Type-Options", "nosniff")
	})
	return err
}

// refusalOfContent returns the answer in place of a file's content; nil if that is not why there is none.
func refusalOfContent(err error) error {
	if errors.Is(err, content.ErrReplaced) {
		return &busy{&refusal{http.StatusServiceUnavailable, "busy", content.ErrReplaced.Error()}, retryAfter}
	}
	if of, ok := errors.AsType[*content.Error](err); ok {
		return &refusal{of.Status, classOf(of.Status), of.Error()}
	}
	return nil
}
