package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

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

func (e *refusal) problem() *Problem { return newProblem(e.status, e.class, e.detail) }

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
