package gateway_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

func TestChangesComeAsServerSentEvents(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/api/v1/sandboxes/job-1/watch?path=.", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer a")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if kind := r.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the type is %q", kind)
	}
	lines := bufio.NewScanner(r.Body)
	next := func(event, data string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() != "event: "+event {
				continue
			}
			if lines.Scan(); strings.Contains(lines.Text(), data) {
				return
			}
		}
		t.Fatalf("no %s of %s: %v", event, data, lines.Err())
	}
	next("ready", `"path":"."`)
	d.walk(step{"PUT", "~/files?path=new", "hello", nil, 201, ""})
	next("create", `"path":"./new"`)
	d.walk(
		step{"POST", "~/files/move", `{"from":"new","to":"old"}`, nil, 204, ""},
		step{"DELETE", "~/files?path=old", "", nil, 204, ""},
		step{"GET", "~/watch?path=none", "", nil, 404, `"class":"not_exist"`},
	)
	next("rename", `"path":"./old","from":"./new"`)
	next("remove", `"path":"./old"`)
}
