package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// mostDecoded is how much memory a body may take to decode, in bytes, with all that is garbage before
// the end.
const mostDecoded = 48 << 20

func TestBodyTakesBoundedMemory(t *testing.T) {
	g := New(Options{})
	defer g.Close()
	paths := g.api.OpenAPI().Paths
	ops := map[string]*rawCall{
		"exec": {op: paths[sandboxRoot+"/exec"].Post},
		"grep": {op: paths[sandboxRoot+"/grep"].Post},
	}
	for name, body := range map[string]string{
		"texts":         array(`""`, "args"),
		"empty objects": array(`{}`, "args"),
		"empty arrays":  array(`[]`, "args"),
		"numbers":       array(`0`, "args"),
		"short texts":   array(`"`+strings.Repeat("a", bodyLimit/jsonParts-4)+`"`, "args"),
		"objects":       array(`{"a":0}`, "paths"),
		"escapes":       `{"pattern":"` + strings.Repeat(`\u0001`, (bodyLimit-100)/6) + `"}`,
		"bad base64":    `{"stdin":"` + strings.Repeat(`A`, bodyLimit-100) + `"}`,
		"names":         names(jsonParts-10, bodyLimit/jsonParts-6),
	} {
		for op, c := range ops {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", jsonType)
			if _, err := readBody(r, bodyLimit); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c.schemas, c.r = g.api.OpenAPI().Components.Schemas, r
			r.Body = io.NopCloser(strings.NewReader(body))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_ = c.body(new(Command))
			runtime.ReadMemStats(&after)
			if r.Body != http.NoBody {
				t.Errorf("%s for %s stay for as long as the call", name, op)
			}
			took := after.TotalAlloc - before.TotalAlloc
			t.Logf("%s for %s: %d MiB for %d KiB", name, op, took>>20, len(body)>>10)
			if took > mostDecoded {
				t.Errorf("%s for %s take %d MiB", name, op, took>>20)
			}
		}
	}
}

// names returns an object with names of this length.
func names(count, length int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, `,"%0*d":0`, length, i)
	}
	return "{" + b.String()[1:] + "}"
}

// array returns a body with as many of a value as it may have.
func array(value, name string) string {
	return `{"` + name + `":[` + strings.Repeat(value+",", jsonParts/(1+strings.Count(value, "{")+strings.Count(value, "["))-10) + value + `]}`
}
