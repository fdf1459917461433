package tracing_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fewWait are the variables for a queue of two spans, each of which is exported alone, for as long as
// it takes.
var fewWait = []string{
	"OTEL_BSP_MAX_QUEUE_SIZE=2", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1", "OTEL_BSP_EXPORT_TIMEOUT=3600000", "OTEL_EXPORTER_OTLP_TIMEOUT=3600000",
}

// held returns a collector that answers nothing until it is released, and when it has been asked.
func held(t *testing.T) (c *collector, url string, asked <-chan struct{}, release func()) {
	t.Helper()
	c = &collector{}
	came, released := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case came <- struct{}{}:
		default:
		}
		<-released
		c.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return c, server.URL, came, sync.OnceFunc(func() { close(released) })
}

// inTime fails if do takes longer than anything does that waits for nobody.
func inTime(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(hung):
		t.Fatalf("%s: not within %v", what, hung)
	}
}

// More spans come than can wait, and nobody takes them: neither the calls nor the end wait for it.
func TestCollectorsThatHangDelayNothing(t *testing.T) {
	for _, name := range []string{"silent", "dead"} {
		t.Run(name, func(t *testing.T) {
			c, url, asked, release := held(t)
			defer release()
			if name == "dead" {
				url = "http://127.0.0.1:1"
			}
			d := tracedTo(t, c, append(fewWait, "OTEL_EXPORTER_OTLP_ENDPOINT="+url)...)
			if name == "silent" {
				inTime(t, "the first export", func() { <-asked })
			}
			inTime(t, "the calls", func() {
				for range 50 {
					if r := d.send("GET", own, ""); r.StatusCode != 200 {
						t.Error(r.Status)
					}
				}
			})
			inTime(t, "the end", func() {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := d.traces.Shutdown(ctx); err == nil && name == "silent" {
					t.Error("it says that all spans were exported")
				}
			})
			if all := d.all(); all != "" {
				t.Errorf("the collector has taken\n%s", all)
			}
		})
	}
}

// A collector that is back gets what could wait, and what comes from then on.
func TestSpansThatCannotWaitAreDropped(t *testing.T) {
	c, url, asked, release := held(t)
	defer release()
	d := tracedTo(t, c, append(fewWait, "OTEL_EXPORTER_OTLP_ENDPOINT="+url)...)
	inTime(t, "the first export", func() { <-asked })
	for range 50 {
		d.send("GET", own, "")
	}
	release()
	for begun := time.Now(); !strings.Contains(d.all(), "get-stats"); time.Sleep(5 * time.Millisecond) {
		d.send("GET", own+"/stats", "")
		if time.Since(begun) > hung {
			t.Fatalf("no span comes after the collector is back:\n%s", d.all())
		}
	}
	if n := strings.Count(d.all(), "get-sandbox"); n > 25 { // the last few may have come when there was room again
		t.Errorf("%d of 50 spans waited in a queue of 2", n)
	}
}
