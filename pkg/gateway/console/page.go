package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// dist is what "make web" builds of web.
//
//go:embed dist
var dist embed.FS

// policy is that of the page. Nothing comes from another host; no script or style is in the page, and no text
// becomes one. xterm.js styles its terminal by rules and properties of elements, which it makes by script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is one of the page.
type file struct {
	content, compressed []byte
	kind, etag          string
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// pageFiles returns the files of the page by their paths.
func pageFiles() map[string]*file {
	files := map[string]*file{}
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(err) // it is in the program
	}
	for _, entry := range entries {
		content, err := dist.ReadFile("dist/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		f := &file{content: content, compressed: compress(content), kind: kinds[path.Ext(entry.Name())], etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
		at := filesPath + entry.Name()
		if entry.Name() == "index.html" {
			at = pagePath
		}
		files[at] = f
	}
	return files
}

func compress(content []byte) []byte {
	var to bytes.Buffer
	z, _ := gzip.NewWriterLevel(&to, gzip.BestCompression)
	_, _ = z.Write(content) // into memory
	_ = z.Close()
	return to.Bytes()
}

// servePage answers with a file of the page, which everybody may see.
func (c *Console) servePage(w http.ResponseWriter, r *http.Request) {
	f := c.files[r.URL.Path]
	if f == nil {
		refuse(w, http.StatusNotFound, "not_found", "the console has no such page")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "unsupported", "this takes a GET")
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-cache") // it is asked each time whether it has changed
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.etag)
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.content
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = f.compressed
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodHead {
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTime))
	_, _ = w.Write(content)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}
