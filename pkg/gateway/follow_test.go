package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
)

// follower is a witness that remembers what else it is told.
type follower struct {
	witness
	notes []string
}

type followerKey struct{}

func (f *follower) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *follower) Arrive(ctx context.Context, a gateway.Act, r *http.Request) context.Context {
	f.note("%s arrives by %s", a.Tenant, r.Method)
	r.Header.Set("Traceparent", "ours")
	return context.WithValue(ctx, followerKey{}, a.ID)
}

func (f *follower) Launch(ctx context.Context, resume bool) (context.Context, func(*launcher.Sandbox, string)) {
	f.mu.Lock()
	began := f.begun[ctx.Value(followerKey{}).(string)]
	f.mu.Unlock()
	return ctx, func(s *launcher.Sandbox, class string) { f.note("%s launched %t %q", began.Operation, s != nil, class) }
}

func (f *follower) Refuse(_ context.Context, status int, class string) {
	f.note("refused %d %s", status, class)
}

func (f *follower) End(ctx context.Context, a gateway.Act, o gateway.Outcome) {
	f.note("%s ends, %t", a.Operation, ctx.Value(followerKey{}) == a.ID)
}

func TestFollowersSeeArrivalsLaunchesAndRefusals(t *testing.T) {
	f := &follower{}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{f} })
	told := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("Traceparent") }))
	defer server.Close()
	d.send("wrong", "GET", "/api/v1/sandboxes", "")
	d.send("wrong", "GET", "/", "", "X-Sandbox-ID: job-1")
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-2","workdir":"/none/there"}`)
	d.send("a", "GET", "/", "", "X-Sandbox-ID: job-1", "X-Sandbox-Port: "+portOf(server))
	want := []string{
		"refused 401 unauthenticated", "refused 401 unauthenticated",
		"acme arrives by POST", `create-sandbox launched true ""`, "create-sandbox ends, true",
		"acme arrives by POST", "create-sandbox ends, true",
		"acme arrives by GET", "route ends, true",
	}
	eventually(t, "the end of all acts", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.notes) >= len(want)
	})
	if !slices.Equal(f.notes, want) {
		t.Errorf("%q\nwant %q", f.notes, want)
	}
	if got := <-told; got != "ours" {
		t.Errorf("the server was told %q", got)
	}
}
