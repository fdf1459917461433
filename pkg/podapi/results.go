package podapi

import (
	"errors"
	"io"
	"iter"

	"github.com/podagent/podagent/pkg/fsops"
)

// errLoopLeft says that the caller has left the loop over results, and wants no
// more of them.
var errLoopLeft = errors.New("loop left")

// eachMessage passes messages to take, until take returns io.EOF for the final one,
// or another error, which eachMessage returns.
func eachMessage[R any](messages iter.Seq2[*R, error], take func(*R) error) error {
	for r, err := range messages {
		if err == nil {
			err = take(r)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ErrCut
}

// allSkipped returns the error at the end of a stream, given what was reported as
// skipped before, and how much was skipped in all: io.EOF for nothing. Agents of
// the previous minor version do not send the total, but report everything.
func allSkipped(skipped *fsops.SkippedError, total int64) error {
	if err := checkNumbers("a number of skipped files", total); err != nil {
		return err
	}
	skipped.More += max(total-skipped.Total(), 0)
	if skipped.Total() == 0 {
		return io.EOF
	}
	return skipped
}

// endResults ends a loop with an error, if there is one for the caller.
func endResults[T any](yield func(T, error) bool, err error) {
	if err != nil && !errors.Is(err, errLoopLeft) {
		var none T
		yield(none, err)
	}
}
