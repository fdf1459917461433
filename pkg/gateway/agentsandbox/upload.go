package agentsandbox

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// content returns the file that a request brings: its body, or the one in a form.
func (c *call) content() (*faces.Source, error) {
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		file, _, err := c.formFile()
		return file, err
	}
	return &faces.Source{Reader: c.r.Body}, nil
}

// formFile returns the file of a form, whose field has the name file, and its whole file name.
func (c *call) formFile() (*faces.Source, string, error) {
	kind, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, "", faces.BadRequest("the Content-Type must be multipart/form-data with a boundary")
	}
	body := &faces.Source{Reader: c.r.Body}
	form := multipart.NewReader(body, params["boundary"])
	for left := int64(partLimit); ; {
		part, err := form.NextRawPart()
		switch {
		case err == io.EOF:
			return nil, "", faces.BadRequest(`the form lacks the field "file"`)
		case err != nil:
			return nil, "", faces.Explain(faces.BadRequest("the body: %v", err), body)
		case part.FormName() == "file":
			_, of, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			return &faces.Source{Reader: part}, of["filename"], nil
		}
		n, err := io.Copy(io.Discard, io.LimitReader(part, left))
		if left -= n + entrySize; err != nil {
			return nil, "", faces.Explain(faces.BadRequest("the body: %v", err), body)
		}
		if left <= 0 {
			return nil, "", gateway.Fail(http.StatusRequestEntityTooLarge, "too_large", `the form has too much beside the field "file"`)
		}
	}
}

// write writes a file. What is wrong with what the client sent counts, and not what became of it.
func (c *call) write(s *launcher.Sandbox, name string, from *faces.Source, o fsops.WriteOptions) error {
	_, err := s.Write(c.r.Context(), name, from, o)
	if err != nil {
		return faces.Explain(err, from)
	}
	return nil
}
