package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	kjson "sigs.k8s.io/json"
)

const jsonType = "application/json"

// readJSON reads the body of an operation that takes JSON, before the operation begins, and
// refuses what is too long, comes too slowly, or is not JSON.
func (g *Gateway) readJSON(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation()
	if op.RequestBody == nil || op.RequestBody.Content[jsonType] == nil {
		next(ctx)
		return
	}
	r, _ := humago.Unwrap(ctx)
	body, err := readBody(r, op.MaxBodyBytes)
	if err == nil && len(body) == 0 && op.RequestBody.Required {
		err = huma.Error400BadRequest("the body is empty: it must be JSON")
	}
	if err != nil {
		_ = huma.WriteErr(g.api, ctx, err.GetStatus(), err.Error())
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next(ctx)
}

// readBody returns a body of JSON that is shorter than limit, and not intricate; it may be empty.
func readBody(r *http.Request, limit int64) ([]byte, huma.StatusError) {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != jsonType {
			return nil, huma.Error415UnsupportedMediaType("the Content-Type must be " + jsonType)
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit))
	status, ok := errors.AsType[huma.StatusError](err)
	switch {
	case ok:
		return nil, status
	case err != nil:
		return nil, huma.Error400BadRequest("the body: " + err.Error())
	case int64(len(body)) == limit:
		return nil, huma.NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body must be shorter than %d bytes", limit))
	case isIntricate(body):
		return nil, huma.NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body must not be nested more than %d deep, nor have more than %d parts", jsonDepth, jsonParts))
	}
	return body, nil
}

// isIntricate reports whether JSON is nested too deeply, or has too many parts. Decoded, each part takes
// a hundred bytes and more, however short it is, and the SDK of the Model Context Protocol reads what is
// nested once for each level.
func isIntricate(body []byte) bool {
	depth, parts, quoted, escaped := 0, 0, false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			parts++
		case c == '}' || c == ']':
			depth--
		case c == ',':
			parts++
		}
		if depth > jsonDepth || parts > jsonParts {
			return true
		}
	}
	return false
}

// unmarshalJSON decodes JSON into v. It refuses what programs read in different ways: a name that
// is there twice, one in other letters (Go's own decoder takes ID for id), and what is not UTF-8.
func unmarshalJSON(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	strict, err := kjson.UnmarshalStrict(data, v)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	return err
}

// body decodes a JSON body, which the operation's schema allows.
func (c *rawCall) body(v any) error {
	data, err := io.ReadAll(c.r.Body) // readJSON has it
	if err != nil {
		return err
	}
	c.r.Body = http.NoBody // the call may be long
	var parsed any
	if err := unmarshalJSON(data, &parsed); err != nil {
		return huma.Error400BadRequest("the body: " + err.Error())
	}
	path, found := huma.NewPathBuffer([]byte("body"), len("body")), huma.ValidateResult{}
	huma.Validate(c.schemas, c.op.RequestBody.Content[jsonType].Schema, path, huma.ModeWriteToServer, parsed, &found)
	if len(found.Errors) > 0 {
		return huma.Error422UnprocessableEntity("validation failed", found.Errors...)
	}
	if err := unmarshalJSON(data, v); err != nil {
		return invalid("the body: %v", err)
	}
	return nil
}

// patientBody is a request's body that ends with an error when its sender is silent for too long.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
	ended   bool
	failed  huma.StatusError // why it broke off
}

// Read reads. Between two reads there is no deadline: it would end the whole request, also when
// its body has been read.
func (b *patientBody) Read(p []byte) (int, error) {
	b.wait()
	n, err := b.ReadCloser.Read(p)
	_ = b.control.SetReadDeadline(time.Time{})
	if err == nil || err == io.EOF {
		b.ended = err == io.EOF
		return n, err
	}
	b.failed = huma.Error400BadRequest("the body: " + err.Error())
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		b.failed = huma.NewError(http.StatusRequestTimeout, "the body did not come")
	}
	return n, b.failed
}

// wait sets the deadline of a read.
func (b *patientBody) wait() {
	_ = b.control.SetReadDeadline(time.Now().Add(bodySilence)) // what has no deadline needs none
}

// patient serves a request with a patientBody.
func patient(w http.ResponseWriter, r *http.Request, h http.Handler) {
	b := &patientBody{ReadCloser: r.Body, control: http.NewResponseController(w)}
	if r.Body != http.NoBody {
		r.Body = b
	}
	h.ServeHTTP(w, r)
	if r.Body == b && !b.ended {
		b.wait() // net/http reads on, to keep the connection
	}
}

// stopReading bounds how long net/http waits for the rest of a body that nobody reads any more:
// it would wait without end, before it answers or afterwards.
func stopReading(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodySilence))
	}
}

// refused keeps the status of an answer that a handler of net/http refuses with, without its text,
// so that a problem can take its place.
type refused struct {
	http.ResponseWriter
	status int
}

func (r *refused) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		r.ResponseWriter.WriteHeader(status)
		return
	}
	r.status = status
}

func (r *refused) Write(p []byte) (int, error) {
	if r.status != 0 {
		return len(p), nil
	}
	return r.ResponseWriter.Write(p)
}

// nowhere answers a request that is for no operation.
func nowhere(w http.ResponseWriter, r *http.Request, h http.Handler) {
	a := &refused{ResponseWriter: w}
	h.ServeHTTP(a, r)
	detail := "there is nothing at this path"
	if allow := w.Header().Get("Allow"); allow != "" {
		detail = "the method must be one of " + strings.ReplaceAll(allow, ", HEAD", "")
	}
	writeProblem(w, huma.NewError(a.status, detail))
}
