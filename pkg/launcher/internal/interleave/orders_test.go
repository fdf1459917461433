package interleave_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher/internal/interleave"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// store is a server that keeps a text for each path.
type store struct {
	mu    sync.Mutex
	texts map[string]string
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPut {
		s.texts[r.URL.Path] += r.URL.Query().Get("add")
	}
	fmt.Fprint(w, s.texts[r.URL.Path])
}

// explore runs two operations that make these calls, in all orders, and returns how often
// each outcome came out.
func explore(t *testing.T, calls ...[]string) (orders int, outcomes map[string]int) {
	t.Helper()
	outcomes = map[string]int{}
	orders, enough := interleave.All(t, 1000, func(s *interleave.Schedule) {
		s.Settle = hung // they wait for nothing else
		kept := &store{texts: map[string]string{}}
		server := httptest.NewServer(kept)
		defer server.Close()
		for i := range calls {
			s.Go(func(wrap func(http.RoundTripper) http.RoundTripper) {
				client := &http.Client{Transport: wrap(server.Client().Transport)}
				for _, c := range calls[i] {
					method, path, _ := strings.Cut(c, " ")
					req, err := http.NewRequest(method, server.URL+path+fmt.Sprintf("?add=%d", i), nil)
					if err == nil {
						var response *http.Response
						if response, err = client.Do(req); err == nil {
							response.Body.Close()
						}
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		s.Run()
		outcomes[fmt.Sprint(kept.texts)]++
	})
	if !enough {
		t.Errorf("%d orders are not all", orders)
	}
	return orders, outcomes
}

func TestAllOrdersThatMakeADifferenceAreTried(t *testing.T) {
	_, outcomes := explore(t, []string{"PUT /x", "PUT /x"}, []string{"PUT /x", "PUT /x"})
	want := []string{"map[/x:0011]", "map[/x:0101]", "map[/x:0110]", "map[/x:1001]", "map[/x:1010]", "map[/x:1100]"}
	if got := slices.Sorted(maps.Keys(outcomes)); !slices.Equal(got, want) {
		t.Errorf("the outcomes are %q", got)
	}
}

func TestOrdersOfCallsThatCommuteAreTriedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		calls [][]string
		want  int
	}{
		"other objects":       {[][]string{{"PUT /x", "PUT /x"}, {"PUT /y", "PUT /y"}}, 1},
		"reads":               {[][]string{{"GET /x", "GET /y"}, {"GET /x", "GET /y"}}, 1},
		"a read and a write":  {[][]string{{"GET /x"}, {"PUT /x"}}, 2},
		"an object and all":   {[][]string{{"GET /pods"}, {"PUT /pods/a"}}, 2},
		"one write, two more": {[][]string{{"GET /x", "PUT /x"}, {"GET /y", "PUT /x"}}, 3},
	} {
		if orders, _ := explore(t, test.calls...); orders < test.want || orders > test.want+1 { // one may end early
			t.Errorf("%s: %d orders, want %d", name, orders, test.want)
		}
	}
}

// An operation that waits for another by asking again and again does not keep it from going on.
func TestWhoPollsGivesWay(t *testing.T) {
	_, enough := interleave.All(t, 100, func(s *interleave.Schedule) {
		s.Settle = hung
		kept := &store{texts: map[string]string{}}
		server := httptest.NewServer(kept)
		defer server.Close()
		get := func(client *http.Client, method string) {
			req, _ := http.NewRequest(method, server.URL+"/x?add=1", nil) // cannot fail
			response, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
		}
		s.Go(func(wrap func(http.RoundTripper) http.RoundTripper) {
			client := &http.Client{Transport: wrap(server.Client().Transport)}
			for {
				get(client, http.MethodGet)
				kept.mu.Lock()
				there := kept.texts["/x"] != ""
				kept.mu.Unlock()
				if there || t.Failed() {
					return
				}
			}
		})
		s.Go(func(wrap func(http.RoundTripper) http.RoundTripper) {
			get(&http.Client{Transport: wrap(server.Client().Transport)}, http.MethodPut)
		})
		s.Run()
	})
	if !enough {
		t.Error("there is no end of orders")
	}
}
