package e2b

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"unicode/utf8"

	"connectrpc.com/connect"
	kjson "sigs.k8s.io/json"
)

// Envd's calls are Connect's, in JSON alone: a unary call is a POST of application/json, and a stream
// has its messages in envelopes (application/connect+json).

const (
	unaryType  = "application/json"
	streamType = "application/connect+json"
)

// unary adds a method of envd that has one request and one answer.
func unary[Req, Res any](mux *http.ServeMux, procedure string, do func(context.Context, *Req) (*Res, error)) {
	h := connect.NewUnaryHandlerSimple(procedure, do, connectOptions...)
	mux.Handle(procedure, &method{h, unaryType, messageLimit})
}

// serverStream adds a method of envd that has one request, and answers with events.
func serverStream[Req, Res any](mux *http.ServeMux, procedure string, do func(context.Context, *Req, *events[Res]) error) {
	h := connect.NewServerStreamHandlerSimple(procedure, func(ctx context.Context, in *Req, s *connect.ServerStream[Res]) error {
		e, end := newEvents(ctx, s)
		defer end()
		return do(e.ctx, in, e)
	}, connectOptions...)
	mux.Handle(procedure, &method{h, streamType, messageLimit})
}

// clientStream adds a method of envd that has many requests, and one answer.
func clientStream[Req, Res any](mux *http.ServeMux, procedure string, do func(context.Context, *connect.ClientStream[Req]) (*Res, error)) {
	mux.Handle(procedure, &method{connect.NewClientStreamHandlerSimple(procedure, do, connectOptions...), streamType, 0})
}

var connectOptions = []connect.HandlerOption{
	connect.WithCodec(jsonCodec{}),
	connect.WithInterceptors(callersFaults{}),
	connect.WithReadMaxBytes(messageLimit),
	connect.WithCompressMinBytes(compressFrom),
	connect.WithCompression("gzip",
		func() connect.Decompressor { return &boundedGzip{} },
		func() connect.Compressor { return gzip.NewWriter(io.Discard) }),
}

// method is a method of envd. What the library would take beyond Connect in JSON, it refuses.
type method struct {
	handler     *connect.Handler
	contentType string
	bodyLimit   int64 // 0 for none: each message is bounded
}

func (m *method) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost && (err != nil || kind != m.contentType) {
		w.Header().Set("Accept-Post", m.contentType)
		writeError(r.Context(), w, http.StatusUnsupportedMediaType, connect.CodeInvalidArgument, "the Content-Type must be "+m.contentType)
		return
	}
	r.Header.Set("Content-Type", m.contentType)
	if ms, err := strconv.ParseInt(r.Header.Get(timeoutHeader), 10, 64); err == nil && ms <= 0 {
		r.Header.Del(timeoutHeader) // clients mean that there is none
	}
	if m.bodyLimit > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, m.bodyLimit+envelopeHeader)
	}
	a := &answer{ResponseWriter: w}
	m.handler.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), answerKey{}, a)))
}

// timeoutHeader has how long the caller waits, in milliseconds. The library makes a deadline of it.
const timeoutHeader = "Connect-Timeout-Ms"

// envelopeHeader is how many bytes come before a message of a stream.
const envelopeHeader = 5

// writeError answers with an error of Connect, outside of its handlers.
func writeError(ctx context.Context, w http.ResponseWriter, status int, code connect.Code, text string) {
	w.Header().Set("Content-Type", unaryType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(connectFault{code.String(), text, missed(ctx, status)})
}

// requestHeader returns the header of the request of a handler's context.
func requestHeader(ctx context.Context) http.Header {
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		return info.RequestHeader()
	}
	return nil
}

type answerKey struct{}

// answer is what a call is answered with. A call in a sandbox that is not there is answered by the
// status alone, as the proxy in front of envd does, if the answer has not begun.
type answer struct {
	http.ResponseWriter
	begun, refused bool
}

// refuseGone answers that there is no such sandbox; it returns false if the answer has begun.
func refuseGone(ctx context.Context, text string) bool {
	a, ok := ctx.Value(answerKey{}).(*answer)
	if !ok || a.begun {
		return false
	}
	for _, name := range []string{"Accept-Encoding", "Connect-Accept-Encoding", "Connect-Content-Encoding"} {
		a.Header().Del(name)
	}
	writeError(ctx, a, http.StatusBadGateway, connect.CodeUnavailable, text)
	a.refused = true
	return true
}

func (a *answer) WriteHeader(status int) {
	if !a.refused {
		a.begun = true
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *answer) Write(p []byte) (int, error) {
	if a.refused {
		return len(p), nil
	}
	if !a.begun { // others may look
		a.begun = true
	}
	return a.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher], which the library asks for.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// jsonCodec has messages as plain structs. It reads as protobuf's JSON is read: names in their own
// letters, and unknown ones are left out, so that newer clients may say more.
type jsonCodec struct{}

// Name implements [connect.Codec].
func (jsonCodec) Name() string { return "json" }

// Marshal implements [connect.Codec]. No page shows it: so < is written as it is, and not six times as long.
func (jsonCodec) Marshal(message any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(message)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Unmarshal implements [connect.Codec].
func (jsonCodec) Unmarshal(data []byte, message any) error {
	if len(data) == 0 {
		return errors.New("an empty message is no JSON: it must be an object")
	}
	if !utf8.Valid(data) {
		return errors.New("the message is not UTF-8")
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, message)
}

// boundedGzip decompresses no more than one message. Without that the library would decompress all
// of a message that is too long, to say how long it is.
type boundedGzip struct {
	gzip.Reader
	left int64
}

// Reset implements [connect.Decompressor].
func (z *boundedGzip) Reset(r io.Reader) error {
	z.left = messageLimit + 1
	return z.Reader.Reset(r)
}

func (z *boundedGzip) Read(p []byte) (int, error) {
	if z.left <= 0 {
		return 0, fmt.Errorf("it is more than %d bytes", messageLimit)
	}
	n, err := z.Reader.Read(p[:min(int64(len(p)), z.left)])
	z.left -= int64(n)
	return n, err
}
