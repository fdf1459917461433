package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// eventAPI is an API server with events, which it tells by the page, in the order of their names. Each is a
// second older than the one before.
func eventAPI(t *testing.T, events int, pages *int) *cluster {
	t.Helper()
	newest := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if events < 0 {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden})
			return
		}
		*pages++
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		if got := r.URL.Query().Get("fieldSelector"); got != "involvedObject.uid=u" {
			t.Errorf("the server selects by %q", got)
		}
		list := corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}}
		for i := from; i < min(from+limit, events); i++ {
			list.Items = append(list.Items, corev1.Event{Reason: fmt.Sprint(i), LastTimestamp: metav1.NewTime(newest.Add(-time.Duration(i) * time.Second))})
		}
		if from+limit < events {
			list.Continue = fmt.Sprint(from + limit)
		}
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	api, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{api: api, namespace: "n"}
}

func TestLatestEventsAreKeptOfManyPages(t *testing.T) {
	for _, test := range []struct{ there, pages, first, last int }{
		{0, 1, -1, -1},
		{3, 1, 2, 0},
		{250, 3, 99, 0},
		{100_000, maxEventPages, 99, 0}, // the rest is not read
	} {
		pages := 0
		c := eventAPI(t, test.there, &pages)
		events, err := c.eventsOf(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}})
		if err != nil || pages != test.pages || len(events) != test.first+1 {
			t.Errorf("of %d: %d events in %d pages, %v", test.there, len(events), pages, err)
			continue
		}
		if n := len(events); n > 0 && (events[0].Reason != fmt.Sprint(test.first) || events[n-1].Reason != fmt.Sprint(test.last)) {
			t.Errorf("of %d: from %s to %s", test.there, events[0].Reason, events[n-1].Reason)
		}
	}
}

func TestEventsThatMayNotBeListedAreAnError(t *testing.T) {
	c := eventAPI(t, -1, new(int))
	if events, err := c.eventsOf(t.Context(), &corev1.Pod{}); !errors.Is(err, ErrForbidden) {
		t.Errorf("%v, %v", events, err)
	}
}
