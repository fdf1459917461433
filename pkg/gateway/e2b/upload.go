package e2b

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// writtenFile is the answer for a file that was written.
type writtenFile struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Type string `json:"type"`
}

// writeFiles writes the file, or the files, of a request: each is replaced as a whole, or stays as it
// was. Those before one that cannot be written stay written. The act has the name of the first: of a form
// that begins before the act does, no more is read than otherPartLimit.
func writeFiles(c *restCall) error {
	if err := c.checkTime(); err != nil {
		return err // nobody may send a body any more
	}
	for name := range c.r.Header {
		if strings.HasPrefix(name, "X-Metadata-") {
			return gateway.Fail(http.StatusNotImplemented, "unsupported", "metadata of files is not supported")
		}
	}
	u, err := c.upload()
	if err != nil {
		return err
	}
	switch err := u.next(); {
	case err == io.EOF:
		return faces.BadRequest("the form has no file: its field must have the name file")
	case err != nil:
		return err
	}
	return c.onFile("files/Write", gateway.Detail{Paths: []string{u.name}}, func(s *launcher.Sandbox) error {
		written, err := u.writeAll(c, s)
		if err == nil {
			faces.WriteJSON(c.w, http.StatusOK, written)
		}
		return err
	})
}

// upload is the body of a request that brings files.
type upload struct {
	beside *besides          // the body, decompressed
	body   *faces.Source     // the same
	named  string            // the path of the file, if the query has it
	form   *multipart.Reader // nil if the body is the file

	name    string        // of the file that is next
	content *faces.Source // of it
}

// besides bounds what comes beside the files of a form.
type besides struct {
	io.Reader
	read bool  // what is read is none of a file
	left int64 // how much of that may come, in bytes
}

func (b *besides) Read(p []byte) (int, error) {
	if b.read && b.left <= 0 {
		return 0, errBeside
	}
	n, err := b.Reader.Read(p)
	if b.read {
		b.left -= int64(n)
	}
	return n, err
}

var errBeside = errors.New("the form has too much beside its files, whose fields have the name file")

func (c *restCall) upload() (*upload, error) {
	u := &upload{beside: &besides{Reader: c.r.Body, left: otherPartLimit}, named: c.query.Get("path")}
	u.body = &faces.Source{Reader: u.beside}
	switch coding := strings.ToLower(c.r.Header.Get("Content-Encoding")); coding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(c.r.Body)
		if err != nil {
			return nil, faces.BadRequest("the body is not gzip: %v", err)
		}
		u.beside.Reader = z
	default:
		return nil, faces.BadRequest("a Content-Encoding of %q is not supported: it can be gzip", coding)
	}
	kind, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/octet-stream":
		if u.named == "" {
			return nil, faces.BadRequest("the query lacks path")
		}
	case err == nil && kind == "multipart/form-data" && params["boundary"] != "":
		u.form = multipart.NewReader(u.body, params["boundary"])
	default:
		return nil, faces.BadRequest("the Content-Type must be multipart/form-data with a boundary, or application/octet-stream")
	}
	return u, nil
}

// next moves on to the next file; the error is io.EOF after the last one.
func (u *upload) next() error {
	if u.form == nil {
		if u.content != nil {
			return io.EOF
		}
		u.name, u.content = u.named, u.body
		return nil
	}
	u.beside.read = true
	u.beside.left += partHeaderLimit
	defer func() { u.beside.read = false }()
	for {
		part, err := u.form.NextRawPart()
		switch {
		case err == io.EOF:
			return err
		case err != nil:
			return u.explain(faces.BadRequest("the form: %v", err))
		}
		if part.FormName() == "file" {
			u.content = &faces.Source{Reader: part}
			u.name, err = u.nameOf(part)
			return err
		}
		if _, err := io.Copy(io.Discard, part); err != nil {
			return u.explain(faces.BadRequest("the form: %v", err))
		}
	}
}

// nameOf returns the path of a file in a form: its whole file name, unless the query has it.
func (u *upload) nameOf(part *multipart.Part) (string, error) {
	if u.named != "" {
		return u.named, nil
	}
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || params["filename"] == "" {
		return "", faces.BadRequest("a file of the form has no file name, and the query no path")
	}
	return params["filename"], nil
}

// writeAll writes the present file and those after it.
func (u *upload) writeAll(c *restCall, s *launcher.Sandbox) ([]writtenFile, error) {
	var written []writtenFile
	there := map[string]bool{}
	for {
		name, err := absolute(s, u.name)
		switch {
		case err != nil:
			return nil, err
		case there[name]:
			return nil, faces.BadRequest("%s is in the request twice: the first one was written", name)
		case len(written) == filesLimit:
			return nil, faces.BadRequest("there are more than %d files: these were written", filesLimit)
		}
		if _, err := s.Write(c.r.Context(), name, u.content, fsops.WriteOptions{Parents: true}); err != nil {
			return nil, u.explain(err)
		}
		there[name] = true
		written = append(written, writtenFile{faces.Text(name), faces.Text(path.Base(name)), "file"})
		if err := u.next(); err == io.EOF {
			return written, nil
		} else if err != nil {
			return nil, err
		}
	}
}

// explain returns why an upload failed.
func (u *upload) explain(err error) error { return faces.Explain(err, u.body, u.content) }
