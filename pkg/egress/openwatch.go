package egress

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// lookFor reports placeholders in the URL of a request and in the names of its headers, and
// in its body and its trailers when those pass.
func (set *secretSet) lookFor(r *http.Request, report func(name, where string)) {
	text := r.URL.RequestURI()
	if plain, err := url.QueryUnescape(text); err == nil {
		text += "\n" + plain
	}
	for _, name := range set.seenIn(text) {
		report(name, "the URL")
	}
	for _, name := range set.seenInNames(r.Header) {
		report(name, "the name of a header")
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &watchedBody{ReadCloser: r.Body, request: r, secrets: set, seen: map[string]bool{}, report: report}
	}
}

// seenInNames returns the names of the secrets whose placeholders are in the names of
// headers, in which case does not count.
func (set *secretSet) seenInNames(h http.Header) []string {
	var seen []string
	for _, s := range set.list() {
		text := strings.ToLower(s.placeholder)
		for name := range h {
			if strings.Contains(strings.ToLower(name), text) && !slices.Contains(seen, s.Name) {
				seen = append(seen, s.Name)
			}
		}
	}
	return seen
}

// seenInTrailers returns the names of the secrets whose placeholders are in trailers.
func (set *secretSet) seenInTrailers(trailer http.Header) []string {
	seen := set.seenInNames(trailer)
	for _, values := range trailer {
		for _, value := range values {
			if _, decoded, isBasic := cutBasic(value); isBasic {
				value = decoded
			}
			seen = append(seen, set.seenIn(value)...)
		}
	}
	slices.Sort(seen)
	return slices.Compact(seen)
}

// watchedBody reports placeholders in a body that passes, and in the trailers after it.
type watchedBody struct {
	io.ReadCloser
	request *http.Request // which has the trailers at the body's end
	secrets *secretSet
	report  func(name, where string)
	seen    map[string]bool
	end     []byte // of what passed, which may begin a placeholder
	over    bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.search(p[:n])
	if err == io.EOF && !b.over {
		b.over = true
		for _, name := range b.secrets.seenInTrailers(b.request.Trailer) {
			b.report(name, "the trailers")
		}
	}
	return n, err
}

func (b *watchedBody) search(piece []byte) {
	edge := b.secrets.longest() - 1
	b.end = append(b.end, piece[:min(len(piece), edge)]...)
	for _, s := range b.secrets.list() {
		text := []byte(s.placeholder)
		if !b.seen[s.Name] && (bytes.Contains(piece, text) || bytes.Contains(b.end, text)) {
			b.seen[s.Name] = true
			b.report(s.Name, "the body")
		}
	}
	if len(piece) >= edge {
		b.end = append(b.end[:0], piece[len(piece)-edge:]...)
	} else if len(b.end) > edge {
		b.end = append(b.end[:0], b.end[len(b.end)-edge:]...)
	}
}
