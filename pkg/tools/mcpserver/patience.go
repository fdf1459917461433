package mcpserver

import (
	"io"
	"net/http"
	"time"
)

// bounded bounds the time to receive the request, and the time in which the client
// takes each part of the response. A response may go on for hours, so a server's
// own timeouts, which cover the whole response, do not fit. The response must go to
// the returned writer.
func bounded(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	control := http.NewResponseController(w)
	if r.Method == http.MethodPost && control.SetReadDeadline(time.Now().Add(requestTimeout)) == nil {
		r.Body = &patientBody{r.Body, control}
	}
	return &patientWriter{w, control}
}

// patientBody removes the deadline when the request is complete: if reading fails
// later, the connection counts as closed.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *patientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{}) // cannot fail: it was set before
	}
	return n, err
}

// patientWriter sets a deadline for each write, and removes it afterwards: the
// next request on the connection must not inherit it.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *patientWriter) Write(p []byte) (int, error) {
	defer w.hurry()()
	return w.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController, like Unwrap.
func (w *patientWriter) FlushError() error {
	defer w.hurry()()
	return w.control.Flush()
}

func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) hurry() (done func()) {
	if w.control.SetWriteDeadline(time.Now().Add(responseTimeout)) != nil {
		return func() {} // not every writer has deadlines
	}
	return func() { _ = w.control.SetWriteDeadline(time.Time{}) }
}
