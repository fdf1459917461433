package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

// errReplaced says that a file is not the one any more that an answer is about to describe.
var errReplaced = &busy{&refusal{http.StatusServiceUnavailable, "busy", "the file is being replaced again and again"}, retryAfter}

// readFile answers with one state of a file: its etag, its size and all its bytes belong together.
func (c *rawCall) readFile() (err error) {
	for range readTries {
		if err = c.readOnce(); !errors.Is(err, errReplaced) {
			return err
		}
	}
	return err
}

func (c *rawCall) readOnce() error {
	f, err := c.sandbox.Open(c, c.query("path"))
	if err != nil {
		return err
	}
	defer f.Close()
	content := &fileState{ctx: c, sandbox: c.sandbox, attr: f.Attr()}
	defer content.stop()
	header := c.w.Header()
	header.Set("ETag", quoted(content.attr.ETag))
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	answer := &lateAnswer{rawCall: c, status: http.StatusOK}
	http.ServeContent(answer, c.r, "", content.attr.ModTime, content)
	return answer.end(content)
}

// lateAnswer is an answer that begins with its first byte: until then another one can take its place.
type lateAnswer struct {
	*rawCall
	status int
}

func (a *lateAnswer) Header() http.Header { return a.w.Header() }

func (a *lateAnswer) WriteHeader(status int) { a.status = status }

func (a *lateAnswer) Write(p []byte) (int, error) {
	if a.status >= http.StatusBadRequest {
		return len(p), nil // a problem takes its place
	}
	if !a.began {
		a.began = true
		a.w.WriteHeader(a.status)
	}
	return a.w.Write(p)
}

// end ends the answer, whose content this was.
func (a *lateAnswer) end(content *fileState) error {
	switch {
	case content.err != nil || a.began:
		return content.err
	case a.status == http.StatusPreconditionFailed:
		return huma.Error412PreconditionFailed("the file is not the one that the request is for")
	case a.status == http.StatusRequestedRangeNotSatisfiable:
		return huma.NewError(a.status, fmt.Sprintf("the range is not in the file, which has %d bytes", content.attr.Size))
	case a.status >= http.StatusBadRequest:
		return huma.NewError(http.StatusBadGateway, "the file cannot be read")
	}
	a.began = true
	a.w.WriteHeader(a.status)
	return nil
}

// fileState reads a file as long as it is the one that attr describes. It implements
// [io.ReadSeeker].
type fileState struct {
	ctx     context.Context
	sandbox *launcher.Sandbox
	attr    fsops.Attr
	offset  int64
	err     error // by which a read failed

	stream *io.PipeReader // from offset on; nil until it is read
	cancel context.CancelFunc
}

func (f *fileState) Read(p []byte) (int, error) {
	if f.stream == nil {
		f.begin()
	}
	n, err := f.stream.Read(p)
	f.offset += int64(n)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

func (f *fileState) begin() {
	ctx, cancel := context.WithCancel(f.ctx)
	r, w := io.Pipe()
	f.stream, f.cancel = r, cancel
	opened := func(now fsops.Attr) error {
		if now.ETag != f.attr.ETag {
			return errReplaced
		}
		return nil
	}
	options := fsops.ReadOptions{Offset: f.offset, Opened: opened}
	go func() {
		_, err := f.sandbox.Read(ctx, f.attr.Path, w, options)
		w.CloseWithError(err)
	}()
}

// Seek implements [io.Seeker]. The end is that of the state.
func (f *fileState) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.attr.Size
	}
	if offset != f.offset {
		f.stop()
	}
	f.offset = offset
	return offset, nil
}

// stop ends the stream.
func (f *fileState) stop() {
	if f.stream != nil {
		f.cancel()
		f.stream.Close()
		f.stream = nil
	}
}
