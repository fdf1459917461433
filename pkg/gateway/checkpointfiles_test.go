package gateway_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckpointsComeAndGoAsFiles(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	const other = "/api/v1/sandboxes/job-2"
	d.walk(
		step{method: http.MethodPost, path: "/api/v1/sandboxes", body: `{"id": "job-1"}`, status: 201},
		step{method: http.MethodPost, path: "/api/v1/sandboxes", body: `{"id": "job-2"}`, status: 201},
		step{method: http.MethodPost, path: "~/exec", body: `{"script": "head -c 3000000 /dev/urandom > large; mkdir d; echo 1 > d/b"}`, status: 200},
	)
	id, none := d.made(`{"name": "tests pass"}`), strings.Repeat("0", 64)
	file := d.send("a", http.MethodGet, "/api/v1/sandboxes/job-1/checkpoints/"+id+"/export", "")
	if file.StatusCode != http.StatusOK || file.Header.Get("Content-Type") != "application/zstd" {
		t.Fatal(file.StatusCode, file.Header)
	}
	changed := []byte(file.text)
	changed[len(changed)/2] ^= 1
	const invalid, checksum, missing = `"class":"invalid"`, `"class":"checksum"`, `"class":"not_exist"`
	d.walk(
		step{method: http.MethodGet, path: "~/checkpoints/" + none + "/export", status: 404, want: missing},
		step{method: http.MethodGet, path: "~/checkpoints/" + id[:63] + "/export", status: 422, want: invalid},
		step{method: http.MethodGet, path: "~/checkpoints/" + id + "/export?path=d", status: 422, want: invalid},
		step{method: http.MethodGet, path: other + "/checkpoints/" + id + "/export", status: 404, want: missing},
		step{method: http.MethodPost, path: other + "/checkpoints/import", status: 422, want: invalid},
		step{method: http.MethodPost, path: other + "/checkpoints/import", body: `{"name": "x"}`, status: 422, want: invalid},
		step{method: http.MethodPost, path: other + "/checkpoints/import", body: file.text[:len(file.text)-1], status: 422, want: checksum},
		step{method: http.MethodPost, path: other + "/checkpoints/import", body: string(changed), status: 422, want: checksum},
		step{method: http.MethodGet, path: other + "/checkpoints", status: 200, want: `"checkpoints":\[\]`},
		step{method: http.MethodPost, path: other + "/checkpoints/import", body: file.text, status: 200, want: `"id":"` + id + `","name":"tests pass",`},
		step{method: http.MethodPost, path: other + "/checkpoints/import", body: file.text, status: 200, want: id},
		step{method: http.MethodGet, path: other + "/checkpoints/" + id + "/diff", status: 200, want: `"path":"d/b","how":"removed"`},
		step{method: http.MethodPost, path: other + "/checkpoints/" + id + "/restore", body: `{}`, status: 200, want: `"kept":\[\]`},
		step{method: http.MethodGet, path: other + "/checkpoints/" + id + "/diff", status: 200, want: `^\{"type":"end"\}\n$`},
		step{method: http.MethodGet, path: other + "/files?path=d/b", status: 200, want: "^1\n$"},
	)
	for _, call := range [][2]string{{http.MethodGet, id + "/export"}, {http.MethodPost, "import"}} {
		got := d.send("o", call[0], "/api/v1/sandboxes/job-1/checkpoints/"+call[1], file.text)
		if got.StatusCode != http.StatusNotFound || !strings.Contains(got.text, "no_sandbox") {
			t.Errorf("another tenant: %s %d %s", call, got.StatusCode, got.text)
		}
	}
}

// A caller that takes what came for the whole file would lose the rest of it.
func TestExportThatFailsMidwayIsCutOff(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.walk(
		step{method: http.MethodPost, path: "/api/v1/sandboxes", body: `{"id": "job-1"}`, status: 201},
		step{method: http.MethodPost, path: "~/exec", body: `{"script": "for f in a z; do head -c 3000000 /dev/urandom > $f; done"}`, status: 200},
	)
	id, last := d.made(`{}`), d.send("a", http.MethodGet, "/api/v1/sandboxes/job-1/files?path=z", "").text
	objects, err := filepath.Glob(filepath.Join(d.state, "*", "checkpoints", "objects", "*"))
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, path := range objects {
		if data, err := os.ReadFile(path); err == nil && string(data) == last && os.Remove(path) == nil {
			removed++
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/api/v1/sandboxes/job-1/checkpoints/"+id+"/export", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: withToken("a")}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got bytes.Buffer
	_, err = got.ReadFrom(answer.Body)
	if removed != 1 || answer.StatusCode != http.StatusOK || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without %d of %d objects: %d, %d bytes, %v", removed, len(objects), answer.StatusCode, got.Len(), err)
	}
}
