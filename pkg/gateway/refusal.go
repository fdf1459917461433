package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// refusal is an answer of the gateway itself.
type refusal struct {
	status int
	class  string
	detail string
}

func (e *refusal) Error() string { return e.detail }

func (e *refusal) problem() *Problem { return newProblem(e.status, e.class, e.detail) }

// busy is a refusal that need not come again, after a while.
type busy struct {
	*refusal
	wait time.Duration
}

func (e *busy) Unwrap() error { return e.refusal }

// tooMany refuses what is too much, until a while has passed.
func tooMany(class, detail string, wait time.Duration) error {
	return &busy{&refusal{http.StatusTooManyRequests, class, detail}, wait}
}

// seconds returns how long to wait, for Retry-After: whole seconds, and never none.
func (e *busy) seconds() string {
	return strconv.FormatInt(max(1, int64((e.wait+time.Second-1)/time.Second)), 10)
}

// ended returns why a call was ended because of its token; nil if it was not.
func ended(cause error) *refusal {
	switch {
	case errors.Is(cause, ErrUnknownToken):
		return errStale
	case errors.Is(cause, errUntold):
		return errNobodyKnows
	}
	return nil
}

var (
	errStale       = &refusal{http.StatusUnauthorized, "unauthenticated", ErrUnknownToken.Error()}
	errNobodyKnows = &refusal{http.StatusServiceUnavailable, "unavailable", errUntold.Error()}
)

// refuse answers with a problem.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if why := ended(context.Cause(r.Context())); why != nil {
		err = why
	} else if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody waits for an answer
	}
	of, ok := errors.AsType[*refusal](err)
	if !ok {
		class, status := classify(err)
		if status == http.StatusInternalServerError {
			g.Log.ErrorContext(r.Context(), "a request cannot be passed to a sandbox for a reason of no known class", "error", err)
			status = http.StatusBadGateway
		}
		of = &refusal{status, class, ownNames(r.Context(), err.Error())}
	}
	switch of.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	if b, ok := errors.AsType[*busy](err); ok {
		w.Header().Set("Retry-After", b.seconds())
	}
	w.Header().Set("Cache-Control", "no-store")
	guard(w.Header())
	writeProblem(w, of)
}

// writeProblem answers with a problem, outside of the operations.
func writeProblem(w http.ResponseWriter, of *refusal) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(of.status)
	_ = json.NewEncoder(w).Encode(newProblem(of.status, of.class, of.detail))
}
