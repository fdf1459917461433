package podapi

import (
	"errors"
	"io"
	"iter"

	"github.com/podagent/podagent/pkg/fsops"
)

// errLoopLeft says that the caller left the loop over results, and so wants to hear
// nothing more.
var errLoopLeft = errors.New("loop left")

// eachMessage hands messages to take, until that returns io.EOF for the final one,
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

// allSkipped returns the error that the final message of a stream stands for, given
// what came as skipped before it, and how much was skipped in all: io.EOF for none.
// Agents of the minor version before do not say how much, but send all.
func allSkipped(skipped *fsops.SkippedError, total int64) error {
	skipped.More += max(max(total, 0)-skipped.Total(), 0)
	if skipped.Total() == 0 {
		return io.EOF
	}
	return skipped
}

// endResults ends a loop with an error, if there is one that the caller is to have.
func endResults[T any](yield func(T, error) bool, err error) {
	if err != nil && !errors.Is(err, errLoopLeft) {
		var none T
		yield(none, err)
	}
}
