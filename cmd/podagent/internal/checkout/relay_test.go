package checkout

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRelayServesOneRepositoryReadOnlyWithTheToken(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
	}))
	defer server.Close()
	r := &run{Options: Options{URL: server.URL + "/one.git", Username: "u", Password: "p"}}
	y, err := r.newRelay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var relays Relays
	defer relays.serve(y)()
	ask := func(method, target, token string) int {
		req := httptest.NewRequest(method, target, strings.NewReader(""))
		req.Header.Set(tokenHeader, token)
		w := httptest.NewRecorder()
		relays.ServeHTTP(w, req)
		return w.Code
	}
	const read = "/repository/info/refs?service=git-upload-pack"
	if got := ask("GET", read, y.token); got != http.StatusOK || len(asked) != 1 || asked[0] != "/one.git/info/refs?service=git-upload-pack" {
		t.Errorf("git gets %d, and the server %q", got, asked)
	}
	for _, token := range []string{"", "wrong"} {
		if got := ask("GET", read, token); got != http.StatusForbidden {
			t.Errorf("with token %q: %d", token, got)
		}
	}
	for _, target := range []string{
		"GET /repository/info/refs?service=git-receive-pack", "POST /repository/git-receive-pack",
		"GET /repository/../two.git/info/refs?service=git-upload-pack", "GET /two.git/info/refs?service=git-upload-pack",
		"GET /repository/HEAD", "GET /", "POST " + read, "POST /repository/git-upload-pack?to=two.git", "GET " + read + "&to=two.git",
	} {
		method, path, _ := strings.Cut(target, " ")
		if got := ask(method, path, y.token); got != http.StatusNotFound {
			t.Errorf("%s: %d", target, got)
		}
	}
	if len(asked) != 1 {
		t.Errorf("the server got %q", asked)
	}
}
