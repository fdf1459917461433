package gateway

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/podagent/podagent/pkg/launcher"
)

// ways are the ways to the servers in a sandbox, with connections that are kept.
type ways struct {
	once         sync.Once
	http1, http2 *http.Transport
}

// to returns the way to a sandbox's servers, which the host "localhost:PORT" names.
func (w *ways) to(s *launcher.Sandbox, http2 bool) *http.Transport {
	w.once.Do(func() { w.http1, w.http2 = newWay(s, false), newWay(s, true) })
	if http2 {
		return w.http2
	}
	return w.http1
}

func newWay(s *launcher.Sandbox, http2 bool) *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, text, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			port, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			return s.Dial(ctx, port)
		},
		DisableCompression: true, Protocols: protocols,
		MaxIdleConns: keptConns, MaxIdleConnsPerHost: keptConns, IdleConnTimeout: keptFor,
		MaxResponseHeaderBytes: answerHeaderLimit, ExpectContinueTimeout: continueTime,
	}
}

func (w *ways) close() {
	w.once.Do(func() {})
	if w.http1 != nil {
		w.http1.CloseIdleConnections()
		w.http2.CloseIdleConnections()
	}
}
