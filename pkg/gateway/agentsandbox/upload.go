package agentsandbox

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// source is what a client sends of a file. It remembers why it cannot be read.
type source struct {
	io.Reader
	failed error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}

// content returns the file that a request brings: its body, or the one in a form.
func (c *call) content() (*source, error) {
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		file, _, err := c.formFile()
		return file, err
	}
	return &source{Reader: c.r.Body}, nil
}

// formFile returns the file of a form, whose field has the name file, and its whole file name.
func (c *call) formFile() (*source, string, error) {
	kind, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, "", badRequest("the Content-Type must be multipart/form-data with a boundary")
	}
	body := &source{Reader: c.r.Body}
	form := multipart.NewReader(body, params["boundary"])
	for left := int64(partLimit); ; {
		part, err := form.NextRawPart()
		switch {
		case err == io.EOF:
			return nil, "", badRequest(`the form lacks the field "file"`)
		case err != nil:
			return nil, "", body.explain(err)
		case part.FormName() == "file":
			_, of, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			return &source{Reader: part}, of["filename"], nil
		}
		n, err := io.Copy(io.Discard, io.LimitReader(part, left))
		if left -= n + entrySize; err != nil {
			return nil, "", body.explain(err)
		}
		if left <= 0 {
			return nil, "", gateway.Fail(http.StatusRequestEntityTooLarge, "too_large", `the form has too much beside the field "file"`)
		}
	}
}

// write writes a file. What is wrong with what the client sent counts, and not what became of it.
func (c *call) write(s *launcher.Sandbox, name string, from *source, o fsops.WriteOptions) error {
	_, err := s.Write(c.r.Context(), name, from, o)
	if err != nil && from.failed != nil {
		return from.explain(err)
	}
	return err
}

// explain returns why a body could not be read.
func (s *source) explain(err error) error {
	if s.failed != nil {
		err = s.failed
	}
	if status, ok := errors.AsType[interface {
		error
		GetStatus() int
	}](err); ok {
		return status // it came too slowly, or the like
	}
	return badRequest("the body: %v", err)
}
