package e2b_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/podagent/podagent/test/contracts"
)

// listed is a sandbox in a list.
type listed struct {
	SandboxID, TemplateID, State string
	StartedAt, EndAt             time.Time
	Metadata                     map[string]string
}

// list returns the pages of a list.
func (d *door) list(query string) (pages [][]listed) {
	d.Helper()
	for token := ""; ; {
		var page []listed
		got := d.call("GET", "/v2/sandboxes?"+query+"&nextToken="+token, "", http.StatusOK, &page)
		pages = append(pages, page)
		if token = got.Header.Get("X-Next-Token"); token == "" {
			return pages
		}
	}
}

// filter returns the query for metadata as E2B's clients encode it: each part, their query, and all of it.
func filter(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(url.PathEscape(pairs[i]), url.PathEscape(pairs[i+1]))
	}
	return "metadata=" + url.QueryEscape(values.Encode())
}

func ids(pages [][]listed) (all []string) {
	for _, s := range slices.Concat(pages...) {
		all = append(all, s.SandboxID)
	}
	return all
}

func TestSandboxesAreListed(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "Sandbox.list", "Sandbox.create with metadata")
	d := newDoor(t)
	var made []string
	for i := range 5 {
		made = append(made, d.create(fmt.Sprintf(`{"metadata":{"number":"%d","odd one?":"%t = & %% ü","e2b.podagent.dev/record-00":"mine"}}`, i, i%2 == 1)).SandboxID)
	}
	newest := slices.Clone(made)
	slices.Reverse(newest)
	for query, want := range map[string][]string{
		"":                                   newest,
		"order=desc":                         newest,
		"order=asc":                          made,
		filter("number", "2"):                {made[2]},
		filter("number", "2", "number ", ""): nil,
		filter("odd one?", "true = & % ü"):   {made[3], made[1]},
		filter("odd one?", "true = &"):       nil,
		filter("e2b.podagent.dev/record-00", "mine"): newest,
		"state=running":                         newest,
		"state=running,paused":                  newest,
		"state=running&state=paused":            newest,
		"state=paused":                          nil,
		"template=base":                         newest,
		"template=python":                       nil,
		"startedAfter=2000-01-01T00:00:00.000Z": newest,
		"startedAfter=2100-01-01T00:00:00.000Z": nil,
	} {
		for limit, pages := range map[int]int{100: 1, 2: (len(want) + 1) / 2, 1000: 1} {
			got := d.list(fmt.Sprintf("%s&limit=%d", query, limit))
			if !slices.Equal(ids(got), want) || len(got) != max(1, pages) {
				t.Errorf("%s in pages of %d: %v, want %v in %d", query, limit, got, want, pages)
			}
		}
	}
	for query, want := range map[string][]string{"limit=2&order=x&nextToken=x": newest, filter("number", "2"): {made[2]}} {
		var all []listed
		if got := d.call("GET", "/sandboxes?"+query, "", http.StatusOK, &all); !slices.Equal(ids([][]listed{all}), want) || got.Header.Get("X-Next-Token") != "" {
			t.Errorf("by the older path, %s: %v, want %v", query, all, want)
		}
	}
	one := d.list(filter("number", "1"))[0][0]
	if got := d.list(filter("number", "1") + "&startedAfter=" + one.StartedAt.Format(time.RFC3339Nano)); len(got[0]) != 1 {
		t.Errorf("after the time when it was started there is %+v", got)
	}
	want := map[string]string{"number": "1", "odd one?": "true = & % ü", "e2b.podagent.dev/record-00": "mine"}
	if fmt.Sprint(one.Metadata) != fmt.Sprint(want) || one.TemplateID != "base" || one.State != "running" || !one.EndAt.After(time.Now()) || one.StartedAt.IsZero() {
		t.Errorf("it is described as %+v", one)
	}
}

func TestListsThatAreRefused(t *testing.T) {
	d := newDoor(t)
	for _, query := range []string{
		"limit=0", "limit=-1", "limit=x", "order=up", "state=dead", "startedAfter=now", "nextToken=x", "nextToken=eA", "metadata=%25zz", "metadata=%2525zz%3D1", "%zz",
	} {
		d.call("GET", "/v2/sandboxes?"+query, "", http.StatusBadRequest, nil)
	}
}

func TestSandboxThatOthersMadeHasItsLabelsAsMetadata(t *testing.T) {
	d := newDoor(t)
	for name, labels := range map[string]string{"plain": `{"team":"red"}`, "lying": `{"team":"red","e2b.podagent.dev/record-00":"xAAAAx"}`} {
		got := d.send("POST", "/api/v1/sandboxes", fmt.Sprintf(`{"id":%q,"labels":%s}`, name, labels), "Authorization: Bearer "+key)
		if got.StatusCode != http.StatusCreated {
			t.Fatal(got.text)
		}
		var s listed
		d.call("GET", "/sandboxes/"+name, "", http.StatusOK, &s)
		if s.SandboxID != name+"--acme" || fmt.Sprint(s.Metadata) != "map[team:red]" || s.TemplateID != "base" {
			t.Errorf("%s: %+v", name, s)
		}
		d.call("POST", "/v2/sandboxes/"+name+"/connect", "", http.StatusOK, nil)
	}
}
