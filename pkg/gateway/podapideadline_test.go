package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPodapiWithADeadline(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	c := d.client("a", "job-1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := c.Info(ctx); err != nil {
		t.Error(err)
	}
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := c.Info(over); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
