package e2b

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/content"
	"github.com/podagent/podagent/pkg/launcher"
)

// readFile answers with the content of a file.
func readFile(c *restCall) error {
	named := c.query.Get("path")
	return c.onFile("files/Read", gateway.Detail{Paths: []string{named}}, func(s *launcher.Sandbox) (err error) {
		name, err := absolute(s, named)
		if err != nil {
			return err
		}
		if c.r.Method == http.MethodGet && wantsGzip(c.r.Header) {
			c.began, err = content.Try(c.r.Context(), s.Client, name, func(f *content.State) (bool, error) { return c.sendGzip(f, name) })
			return err
		}
		c.began, err = content.Serve(c.w, c.r, s.Client, name, func(h http.Header, a fsops.Attr) {
			describeFile(h, name)
			h.Set("ETag", `"`+a.ETag+`"`)
		})
		return err
	})
}

// describeFile sets the header of a file's content. It is a download, and no page of the gateway's.
func describeFile(h http.Header, name string) {
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	h.Set("Vary", "Accept-Encoding")
}

// wantsGzip reports whether a client asks for gzip, and not just takes it along with other codings, as
// clients do without being told: to compress costs more than a network does.
func wantsGzip(h http.Header) bool {
	if h.Get("Range") != "" || h.Get("If-Modified-Since") != "" || h.Get("If-None-Match") != "" {
		return false // these are of the content as it is
	}
	wanted := ""
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(coding), " ", ""), ";")
		if q, err := strconv.ParseFloat(strings.TrimPrefix(quality, "q="), 64); err == nil && q == 0 || name == "" {
			continue
		}
		wanted += name + " "
	}
	return wanted == "gzip "
}

// sendGzip answers with the content of a file, compressed. It sends an empty file as it is: it is by its
// length that clients know it.
func (c *restCall) sendGzip(f *content.State, name string) (began bool, err error) {
	describeFile(c.w.Header(), name)
	b := bufio.NewReader(f)
	if _, err := b.Peek(1); err == io.EOF {
		c.w.Header().Set("Content-Length", "0")
		return true, nil
	} else if err != nil {
		return false, err
	}
	c.w.Header().Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(c.w, gzip.BestSpeed)
	if _, err := b.WriteTo(z); err != nil {
		return true, err
	}
	return true, z.Close()
}

// ofFile returns an error with the status that E2B's clients expect of a file that is a directory, or
// the other way round.
func ofFile(err error) error {
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		return gateway.Fail(http.StatusBadRequest, "invalid", err.Error())
	}
	return err
}
