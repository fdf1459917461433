package delay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/internal/delay"
)

func TestForWaitsOrTellsWhyItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := delay.For(t.Context(), time.Minute); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := delay.For(ctx, time.Hour); err != why || time.Since(begun) != time.Minute+time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
