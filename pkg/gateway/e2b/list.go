package e2b

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/gateway/internal/faces"
)

// listQuery is what a list is asked for.
type listQuery struct {
	metadata     map[string]string
	states       []string
	template     string
	startedAfter time.Time // only those that were started then, or later
	ascending    bool
	pageQuery
}

// headerNext has the token of the next page of a list.
const headerNext = "X-Next-Token"

// pageQuery is which page of a list is asked for.
type pageQuery struct {
	limit     int
	afterTime time.Time // of the last one of the page before, if afterID is not empty
	afterID   string
}

// list answers with the sandboxes, the newest first unless the query says otherwise, in pages.
func (c *control) list() error {
	q, err := parseList(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	return c.answerList(&q)
}

// listRunning is list for clients of the first generation, who know neither states nor pages: it has all that
// run.
func (c *control) listRunning() error {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return faces.BadRequest("the query: %v", err)
	}
	q := listQuery{states: []string{stateRunning}, pageQuery: pageQuery{limit: math.MaxInt}}
	if q.metadata, err = parseMetadata(values.Get("metadata")); err != nil {
		return err
	}
	return c.answerList(&q)
}

func (c *control) answerList(q *listQuery) error {
	all, err := c.List(c.r.Context())
	if err != nil {
		return err
	}
	running, found := 0, []described{}
	for _, s := range all {
		d, _, ok := c.describe(&s)
		if ok && q.wants(&d) {
			found = append(found, d)
		}
		if ok && d.State == stateRunning {
			running++
		}
	}
	slices.SortFunc(found, q.compare)
	page := slices.DeleteFunc(found, func(d described) bool { return !q.isAfter(&d) })
	if len(page) > q.limit {
		page = page[:q.limit]
		c.w.Header().Set(headerNext, tokenOf(&page[q.limit-1]))
	}
	c.w.Header().Set("X-Total-Running", strconv.Itoa(running))
	faces.WriteJSON(c.w, http.StatusOK, page)
	return nil
}

// parseList reads the query of a list.
func parseList(raw string) (q listQuery, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, faces.BadRequest("the query: %v", err)
	}
	q = listQuery{states: []string{stateRunning, statePaused}, template: values.Get("template")}
	if q.metadata, err = parseMetadata(values.Get("metadata")); err != nil {
		return q, err
	}
	if all := values["state"]; len(all) > 0 {
		q.states = strings.Split(strings.Join(all, ","), ",")
	}
	for _, state := range q.states {
		if state != stateRunning && state != statePaused {
			return q, faces.BadRequest("state: %.100q is not running or paused", state)
		}
	}
	if text := values.Get("startedAfter"); text != "" {
		if q.startedAfter, err = time.Parse(time.RFC3339, text); err != nil {
			return q, faces.BadRequest("startedAfter: %.100q is not a time", text)
		}
	}
	switch order := values.Get("order"); order {
	case "", "desc":
	case "asc":
		q.ascending = true
	default:
		return q, faces.BadRequest("order: %.100q is not asc or desc", order)
	}
	q.pageQuery, err = parsePage(values)
	return q, err
}

// parsePage reads which page of a list is asked for.
func parsePage(values url.Values) (q pageQuery, err error) {
	q.limit = pageLimit
	if text := values.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 1 {
			return q, faces.BadRequest("limit: %.100q is not a number from 1", text)
		}
		q.limit = min(q.limit, pageLimit)
	}
	if text := values.Get("nextToken"); text != "" {
		if q.afterTime, q.afterID, err = parseToken(text); err != nil {
			return q, faces.BadRequest("nextToken: %.100q is not one of this list", text)
		}
	}
	return q, nil
}

// parseMetadata reads what a list is filtered by: a query in itself, whose names and values are encoded
// once more.
func parseMetadata(text string) (map[string]string, error) {
	pairs, err := url.ParseQuery(text)
	if err != nil {
		return nil, faces.BadRequest("metadata: %v", err)
	}
	metadata := map[string]string{}
	for name, values := range pairs {
		plain, err := url.PathUnescape(name)
		if err != nil {
			return nil, faces.BadRequest("metadata: %v", err)
		}
		if metadata[plain], err = url.PathUnescape(values[len(values)-1]); err != nil {
			return nil, faces.BadRequest("metadata: %v", err)
		}
	}
	return metadata, nil
}

// wants reports whether the list is to have a sandbox, on whichever page.
func (q *listQuery) wants(d *described) bool {
	for name, value := range q.metadata {
		if has, ok := d.Metadata[name]; !ok || has != value {
			return false
		}
	}
	return slices.Contains(q.states, d.State) && (q.template == "" || q.template == d.Template) && !d.StartedAt.Before(q.startedAfter)
}

// compare orders sandboxes by the time when they were started.
func (q *listQuery) compare(a, b described) int {
	order := a.StartedAt.Compare(b.StartedAt)
	if order == 0 {
		order = strings.Compare(a.ID, b.ID)
	}
	if !q.ascending {
		order = -order
	}
	return order
}

// isAfter reports whether a sandbox comes after the page before.
func (q *listQuery) isAfter(d *described) bool {
	return q.afterID == "" || q.compare(*d, described{ID: q.afterID, StartedAt: q.afterTime}) > 0
}

// tokenOf returns the token of the page after a sandbox.
func tokenOf(d *described) string { return pageToken(d.StartedAt, d.ID) }

// pageToken returns the token of the page after the one that ends with this id, of this time.
func pageToken(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", at.UnixNano(), id))
}

func parseToken(text string) (at time.Time, id string, err error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return at, "", err
	}
	number, id, _ := strings.Cut(string(data), " ")
	nanos, err := strconv.ParseInt(number, 10, 64)
	if err == nil && id == "" {
		err = strconv.ErrSyntax
	}
	return time.Unix(0, nanos), id, err
}
