package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
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

// wholeSeconds returns how long to wait, for Retry-After: whole seconds, and never none.
func wholeSeconds(wait time.Duration) string {
	return strconv.FormatInt(max(1, int64((wait+time.Second-1)/time.Second)), 10)
}

// ended returns why a call was ended because of its token or link, or by the gateway's end; nil if it
// was not.
func ended(cause error) error {
	switch {
	case errors.Is(cause, ErrUnknownToken):
		return errStale
	case errors.Is(cause, errUntold):
		return errNobodyKnows
	case errors.Is(cause, errLinkOver):
		return errStranger
	case errors.Is(cause, errClosing):
		return errEnding
	}
	return nil
}

var (
	errStale       = &refusal{http.StatusUnauthorized, "unauthenticated", ErrUnknownToken.Error()}
	errNobodyKnows = &refusal{http.StatusServiceUnavailable, "unavailable", errUntold.Error()}
	errEnding      = &busy{&refusal{http.StatusServiceUnavailable, "unavailable", errClosing.Error()}, time.Second}
)

// abandon ends a request that nobody waits for an answer to.
func abandon(r *http.Request) {
	if errors.Is(r.Context().Err(), context.Canceled) && ended(context.Cause(r.Context())) == nil {
		panic(http.ErrAbortHandler)
	}
}

// refuse answers a request that is not let in, or not passed to a sandbox.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, err error) {
	abandon(r)
	err = g.problem(r.Context(), err)
	p := problemOf(err)
	switch p.Status {
	case http.StatusInternalServerError:
		p.Status, p.Title = http.StatusBadGateway, http.StatusText(http.StatusBadGateway)
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1") // unless the problem says when
	}
	if id := actOf(r.Context()).act.ID; id != "" {
		w.Header().Set(headerRequestID, id)
	} else {
		g.turnedAway(r.Context(), p)
	}
	w.Header().Set("Cache-Control", "no-store")
	guard(w.Header())
	stopReading(w, r)
	writeProblem(w, err)
}

// turnedAway tells the followers of a request that was not let in.
func (g *Gateway) turnedAway(ctx context.Context, p *Problem) {
	for f := range followers(g.Observers) {
		f.Refuse(ctx, p.Status, p.Class)
	}
}

// writeProblem answers with what problem has returned, outside of huma's operations.
func writeProblem(w http.ResponseWriter, err error) {
	if with, ok := errors.AsType[huma.HeadersError](err); ok {
		maps.Copy(w.Header(), with.GetHeaders())
	}
	p := problemOf(err)
	w.Header().Set("Content-Type", problemJSON)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

const problemJSON = "application/problem+json"
