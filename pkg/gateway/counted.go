package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
)

// counted returns what the act's request is answered with, and the request, both of which count
// their bytes.
func (a *act) counted(ctx context.Context, w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	r = r.WithContext(ctx)
	if r.Body != http.NoBody {
		r.Body = &countedBody{r.Body, a}
	}
	return &countedWriter{w, a}, r
}

type countedBody struct {
	io.ReadCloser
	act *act
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.act.in.Add(int64(n))
	return n, err
}

type countedWriter struct {
	http.ResponseWriter
	act *act
}

func (w *countedWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.act.status.CompareAndSwap(0, int32(status))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countedWriter) Write(p []byte) (int, error) {
	w.act.status.CompareAndSwap(0, http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.act.out.Add(int64(n))
	return n, err
}

// Unwrap is for [http.ResponseController].
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements [http.Hijacker].
func (w *countedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return conn, buffered, err
	}
	w.act.status.CompareAndSwap(0, http.StatusSwitchingProtocols)
	counted := &countedConn{conn, w.act}
	if buffered.Reader.Buffered() == 0 {
		buffered.Reader.Reset(counted) // WebSockets read by it
	}
	return counted, buffered, nil
}

type countedConn struct {
	net.Conn
	act *act
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.act.in.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.act.out.Add(int64(n))
	return n, err
}
