package gateway

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

const (
	keyOfA = "tenants:\n  acme:\n    keys:\n    - sha256: ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\n" // of a
	forOne = "      expires: 2000-01-01T00:00:20Z\n"                                                                          // a bubble begins at 2000-01-01
)

// underWay returns the context of a call that is let in by a file of keys, and the file's path.
func underWay(t *testing.T, text string) (context.Context, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write(t, path, text)
	g := New(Options{Tenants: &Keys{Path: path}})
	_, r, end, err := g.letIn(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return r.Context(), path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCallEndsSoonAfterItsKeyExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := underWay(t, keyOfA+forOne)
		time.Sleep(19 * time.Second)
		if ctx.Err() != nil {
			t.Fatalf("it ended before: %v", context.Cause(ctx))
		}
		time.Sleep(1*time.Second + 2*askInterval)
		if !errors.Is(context.Cause(ctx), ErrUnknownToken) {
			t.Errorf("it ended because of %v", context.Cause(ctx))
		}
	})
}

func TestCallGoesOnForAWhileWhenNobodyKnowsWhoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, path := underWay(t, keyOfA)
		for range 3 { // each time anew
			write(t, path, "tenants: [")
			time.Sleep(untoldTime - askInterval)
			if ctx.Err() != nil {
				t.Fatalf("it ended at once: %v", context.Cause(ctx))
			}
			write(t, path, keyOfA)
			time.Sleep(2 * askInterval)
		}
		write(t, path, "tenants: [")
		time.Sleep(untoldTime + 3*askInterval)
		if !errors.Is(context.Cause(ctx), errUntold) {
			t.Errorf("it ended because of %v", context.Cause(ctx))
		}
	})
}

// The same token may become another tenant's: its calls are not that tenant's.
func TestCallEndsWhenItsKeyIsAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, path := underWay(t, keyOfA)
		write(t, path, "tenants:\n  other:\n"+keyOfA[len("tenants:\n  acme:\n"):])
		time.Sleep(2 * askInterval)
		if !errors.Is(context.Cause(ctx), ErrUnknownToken) {
			t.Errorf("it ended because of %v", context.Cause(ctx))
		}
	})
}
