package fsops

import (
	"context"
	"iter"
)

// oneByOne yields the results in batches one by one. Batches that end early because
// ctx did must have an error at their end.
func oneByOne[T any](ctx context.Context, batches iter.Seq2[[]T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for batch, err := range batches {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for i := range batch {
				if ctx.Err() != nil {
					break
				}
				if !yield(batch[i], nil) {
					return
				}
			}
		}
	}
}
