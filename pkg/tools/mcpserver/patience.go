package mcpserver

import (
	"io"
	"net/http"
	"time"
)

// bounded bounds how long a request takes to come in, and how long the client
// takes for each part of its response, which may come over hours: a server's
// own timeouts count for all of them together. The writer that is returned is
// for the response.
func bounded(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	control := http.NewResponseController(w)
	if r.Method == http.MethodPost && control.SetReadDeadline(time.Now().Add(requestTimeout)) == nil {
		r.Body = &patientBody{r.Body, control}
	}
	return &patientWriter{w, control}
}

// patientBody lifts the deadline when the request has come in: a connection on
// which reading failed counts as closed.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *patientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{}) // it was set, so that it can be
	}
	return n, err
}

// patientWriter sets the deadline of each write, and none between them: the next
// request on the connection is to find none.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *patientWriter) Write(p []byte) (int, error) {
	defer w.hurry()()
	return w.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController, as Unwrap is.
func (w *patientWriter) FlushError() error {
	defer w.hurry()()
	return w.control.Flush()
}

func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) hurry() (done func()) {
	if w.control.SetWriteDeadline(time.Now().Add(responseTimeout)) != nil {
		return func() {} // not every writer has one
	}
	return func() { _ = w.control.SetWriteDeadline(time.Time{}) }
}
