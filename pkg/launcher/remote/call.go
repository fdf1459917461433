package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/podapi"
)

// errLate says that a call took longer than it may.
var errLate = fmt.Errorf("%w: the gateway did not answer in time", podapi.ErrUnavailable)

// call sends a request until a gateway answers for good: all requests can be repeated. It decodes the
// answer, unless into is nil. All tries together end after limit.
func (l *Launcher) call(ctx context.Context, limit time.Duration, method, path string, body, into any) (status int, err error) {
	if err := l.ready(); err != nil {
		return 0, err
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	absent, sent := time.Time{}, false // since when there was no answer, and whether a request was sent
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		status, err := l.try(ctx, method, path, text, into)
		e, failed := errors.AsType[*Error](err)
		if !failed {
			return status, err
		}
		sent = sent || e.sent
		e.sent = sent
		switch {
		case !e.absent():
			absent = time.Time{}
		case absent.IsZero():
			absent = time.Now()
		}
		wait := pause/2 + rand.N(pause/2) + max(e.retry, 0)
		if e.retry < 0 || !absent.IsZero() && time.Since(absent)+wait > absentTime || !sleep(ctx, wait) {
			return e.Status, late(ctx, e)
		}
		l.log().DebugContext(ctx, "a request to the gateway is repeated", "method", method, "path", path, "error", e)
	}
}

// late returns why a call ended: its last failure, unless that is only that the time is over.
func late(ctx context.Context, e *Error) error {
	if ctx.Err() == nil || e.Status > 0 {
		return e
	}
	e.cause, e.Detail = context.Cause(ctx), context.Cause(ctx).Error()
	return e
}

// sleep waits, unless ctx ends before that: then it returns false at once.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	return delay.For(ctx, d) == nil
}

// try sends a request once. If that fails, the error is an *[Error]. Without into the answer has no content.
func (l *Launcher) try(ctx context.Context, method, path string, body []byte, into any) (status int, err error) {
	token, err := l.token()
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, method, l.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := l.http.Do(r)
	if err != nil {
		return 0, l.unanswered(err)
	}
	defer answer.Body.Close()
	success := answer.StatusCode/100 == 2
	text, err := readUpTo(answer.Body, success)
	switch {
	case err != nil:
		return 0, l.unanswered(err)
	case !success:
		return answer.StatusCode, l.refusal(answer, text)
	case into == nil && answer.StatusCode == http.StatusNoContent:
		return answer.StatusCode, nil
	case into == nil || !isJSON(answer) || json.Unmarshal(text, into) != nil:
		return answer.StatusCode, l.notOfGateway(answer)
	}
	return answer.StatusCode, nil
}

// readUpTo reads an answer. One that is too long is an error.
func readUpTo(body io.Reader, success bool) ([]byte, error) {
	limit := int64(problemLimit)
	if success {
		limit = answerLimit
	}
	text, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%w: the answer has more than %d bytes", podapi.ErrProtocol, limit)
	}
	return text, err
}

// unanswered returns the error of a request that no gateway answered.
func (l *Launcher) unanswered(err error) *Error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err // without the request's URL
	}
	e := &Error{Class: "unavailable", sent: true}
	if of, ok := errors.AsType[*net.OpError](err); ok && of.Op == "dial" {
		e.sent = false
	}
	if isFinal(err) {
		e.retry = -1
	}
	e.Detail = cut(fmt.Sprintf("cannot reach the gateway at %s: %v", l.base, err))
	e.cause = errors.Join(podapi.ErrUnavailable, err)
	return e
}

// isFinal reports whether a request that was not answered will not be: what listens there is none that
// the caller trusts, or no gateway.
func isFinal(err error) bool {
	name, ok := errors.AsType[*net.DNSError](err)
	return ok && name.IsNotFound || errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.Is(err, podapi.ErrProtocol) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// isJSON reports whether a response is what gateways send.
func isJSON(r *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind == "application/json" || kind == "application/problem+json"
}

// retryAfter returns how long a gateway wants to be left alone; 0 if it does not say.
func retryAfter(r *http.Response) time.Duration {
	n, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, maxSeconds)) * time.Second
}

func (l *Launcher) log() *slog.Logger {
	if l.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.Log
}
