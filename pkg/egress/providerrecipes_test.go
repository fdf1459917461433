//go:build !race

package egress

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/podagent/podagent/internal/recipetest"
)

// provider is the API of a model's provider. It streams an answer in two parts, and the second one only
// when the program has the first.
type provider struct {
	header, value string // what lets a request in
	seen          chan struct{}
}

const question = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello?"}]}`

func (p *provider) front(http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(p.header) != p.value {
			http.Error(w, `{"type":"error","error":{"type":"authentication_error"}}`, http.StatusUnauthorized)
			return
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != question {
			http.Error(w, fmt.Sprintf("the question was %q, %v", body, err), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: delta\ndata: hello\n\n")
		_ = http.NewResponseController(w).Flush() // if that fails, the program does not see it
		select {
		case <-p.seen:
			fmt.Fprint(w, "event: stop\ndata: bye\n\n")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("GET /seen", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case p.seen <- struct{}{}:
		case <-r.Context().Done():
		}
	})
	return mux
}

// Both ask the question with the header that $HEADER and $KEY make, and say by another request that they
// have a line "data: hello".
const (
	providerCurl = `curl -sSN https://$HOST:$PORT/v1/messages -H "$HEADER$KEY" -H "content-type: application/json" -d "$QUESTION" | while IFS= read -r line; do
	echo "$line"
	[ "$line" != "data: hello" ] || curl -sS https://$HOST:$PORT/seen
done`
	providerPython = `python3 -c '
import os, urllib.request as r
url = "https://{HOST}:{PORT}/".format(**os.environ)
name, _, scheme = os.environ["HEADER"].partition(": ")
headers = {name: scheme + os.environ["KEY"], "content-type": "application/json"}
for line in r.urlopen(r.Request(url + "v1/messages", os.environ["QUESTION"].encode(), headers)):
	print(line.decode(), end="")
	if line == b"data: hello\n":
		r.urlopen(url + "seen")'`
)

// A program asks a model by a key that it does not have, and gets the answer while it is being written.
func TestRecipesOfAModelsProvider(t *testing.T) {
	for _, api := range []struct{ variable, prefix, header, before string }{
		{"ANTHROPIC_API_KEY", "sk-ant-", "X-Api-Key", ""},
		{"OPENAI_API_KEY", "sk-", "Authorization", "Bearer "},
	} {
		t.Run(api.variable, func(t *testing.T) {
			const value = "value-of-the-key-of-the-provider"
			p := &provider{header: api.header, value: api.before + value, seen: make(chan struct{})}
			town := recipetest.Serve(t, p.front)
			secret := Secret{Name: api.variable, Prefix: api.prefix, Value: []byte(value), Hosts: policyOf(t, fmt.Sprintf("web.example.com:%d", town.Port)).Allow}
			h := newHouse(t, Options{Secrets: []Secret{secret}, Roots: town.Roots}, town.Rules()...)
			env := []string{"PATH=" + os.Getenv("PATH"), "QUESTION=" + question, "HEADER=" + api.header + ": " + api.before}
			for program, script := range map[string]string{"curl": providerCurl, "python3": providerPython} {
				t.Run(program, func(t *testing.T) {
					before := fmt.Sprintf(`export KEY=$%s && echo "$KEY" && `, api.variable)
					out, err := recipetest.Run(t.Context(), h.Client, before+script, "web.example.com", town.Port, env...)
					key, answer, _ := strings.Cut(out, "\n")
					if err != nil || answer != "event: delta\ndata: hello\n\nevent: stop\ndata: bye\n\n" {
						t.Errorf("%v:\n%s", err, out)
					}
					if !strings.HasPrefix(key, api.prefix) || strings.Contains(out, value) {
						t.Errorf("the program has the key %s", key)
					}
					denied, err := recipetest.Run(t.Context(), h.Client, before+strings.ReplaceAll(script, "-sSN", "-fsSvN"), recipetest.Evil, town.Port, env...)
					if !strings.Contains(denied, recipetest.Reason) {
						t.Errorf("another host: %v:\n%s", err, denied)
					}
				})
			}
		})
	}
}
