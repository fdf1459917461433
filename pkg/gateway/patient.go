package gateway

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/halves"
)

// patientWriter writes an answer until its caller reads nothing for too long: then the answer
// breaks off. Between two writes there is no deadline, since an answer may have nothing to say.
type patientWriter struct {
	http.ResponseWriter
	timer *time.Timer

	mu      sync.Mutex
	writing bool
}

// Write writes in parts, each of which has its time.
func (p *patientWriter) Write(data []byte) (n int, err error) {
	for {
		part := data[n:min(len(data), n+answerPart)]
		p.begin()
		written, err := p.ResponseWriter.Write(part)
		p.end()
		if n += written; err != nil || n == len(data) {
			return n, err
		}
	}
}

// FlushError is for [http.ResponseController].
func (p *patientWriter) FlushError() error {
	p.begin()
	defer p.end()
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Unwrap lets [http.ResponseController] find what else the writer can do.
func (p *patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patientWriter) begin() {
	p.mu.Lock()
	p.writing = true
	p.mu.Unlock()
	if p.timer == nil {
		p.timer = time.AfterFunc(answerSilence, p.breakOff)
		return
	}
	p.timer.Reset(answerSilence)
}

func (p *patientWriter) end() {
	p.timer.Stop()
	p.mu.Lock()
	p.writing = false
	p.mu.Unlock()
}

// breakOff ends a write. The connection may have another request by the time of a late timer.
func (p *patientWriter) breakOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing {
		_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now())
	}
}

// Hijack takes over the caller's connection, for a server that has switched protocols.
func (w *answerWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &patientConn{conn}, buffered, nil
}

// patientConn is a caller's connection that breaks off if the caller reads nothing for too long.
type patientConn struct{ net.Conn }

func (c *patientConn) Write(data []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(answerSilence))
	return c.Conn.Write(data)
}

// CloseWrite ends this direction alone, as servers may.
func (c *patientConn) CloseWrite() error { return halves.CloseWrite(c.Conn) }

// NetConn returns the connection whose bytes are counted.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

// CloseWrite is that of the connection, if it has one.
func (c *countedConn) CloseWrite() error { return halves.CloseWrite(c.Conn) }

// socketOf returns the connection below TLS and counts.
func socketOf(conn net.Conn) net.Conn {
	for {
		over, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = over.NetConn()
	}
}
