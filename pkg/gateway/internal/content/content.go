// Package content answers requests for what is in a file of a sandbox, with its parts and conditions
// (RFC 9110), and without holding it. What an answer says of a file is of one state of it.
package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// ErrReplaced says that a file was replaced between the look at it and each of the reads.
var ErrReplaced = errors.New("the file is being replaced again and again")

// tries is how often an answer is begun anew, because the file was replaced between the look at it
// and the read.
const tries = 10

// An Error says why there is no such content.
type Error struct {
	Status int // of HTTP: 412, 416 or 502
	text   string
}

func (e *Error) Error() string { return e.text }

// mostRanges is how many ranges of a file a request gets: each is a read of its own. Of one that asks for
// more, the ranges are ignored, as a server may (RFC 9110, 14.2).
const mostRanges = 16

// Serve answers a request for the content of a file, as [http.ServeContent] does. The header of an
// answer is set by describe. If it returns an error, and began is true, the answer is a part of what it
// announced, and must be cut off; otherwise there is none, but for its header.
func Serve(w http.ResponseWriter, r *http.Request, c *podapi.Client, name string, describe func(http.Header, fsops.Attr)) (began bool, err error) {
	if strings.Count(r.Header.Get("Range"), ",") >= mostRanges {
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	return Try(r.Context(), c, name, func(s *State) (bool, error) {
		describe(w.Header(), s.Attr())
		answer := &lateAnswer{ResponseWriter: w, status: http.StatusOK}
		http.ServeContent(answer, r, "", s.Attr().ModTime, s)
		return answer.end(s)
	})
}

// Try answers with the present state of a file, by a function that reports whether the answer has begun. If
// the file was replaced before that, it tries again.
func Try(ctx context.Context, c *podapi.Client, name string, answer func(*State) (began bool, err error)) (began bool, err error) {
	for range tries {
		if began, err = tryOnce(ctx, c, name, answer); began || !errors.Is(err, ErrReplaced) {
			break
		}
	}
	return began, err
}

func tryOnce(ctx context.Context, c *podapi.Client, name string, answer func(*State) (bool, error)) (bool, error) {
	s, err := open(ctx, c, name)
	if err != nil {
		return false, err
	}
	defer s.close()
	return answer(s)
}

// lateAnswer is an answer that begins with its first byte: until then another one can take its place.
type lateAnswer struct {
	http.ResponseWriter
	status int
	began  bool
}

func (a *lateAnswer) WriteHeader(status int) { a.status = status }

func (a *lateAnswer) Write(p []byte) (int, error) {
	if a.status >= http.StatusBadRequest {
		return len(p), nil // an error takes its place
	}
	a.begin()
	return a.ResponseWriter.Write(p)
}

func (a *lateAnswer) begin() {
	if !a.began {
		a.began = true
		a.ResponseWriter.WriteHeader(a.status)
	}
}

// end ends the answer, whose content this was.
func (a *lateAnswer) end(s *State) (began bool, err error) {
	failed := s.failed()
	if failed != nil && !a.began { // what takes its place has another length
		for _, name := range []string{"Content-Length", "Content-Range", "Accept-Ranges"} {
			a.Header().Del(name)
		}
	}
	switch {
	case failed != nil || a.began:
		return a.began, failed
	case a.status == http.StatusPreconditionFailed:
		return false, &Error{a.status, "the file is not the one that the request is for"}
	case a.status == http.StatusRequestedRangeNotSatisfiable:
		return false, &Error{a.status, fmt.Sprintf("the range is not in the file, which has %d bytes", s.attr.Size)}
	case a.status >= http.StatusBadRequest:
		return false, &Error{http.StatusBadGateway, "the file cannot be read"}
	}
	a.begin()
	return true, nil
}

// State reads a file as long as it is the one that Attr describes; then it fails with [ErrReplaced].
// It implements [io.ReadSeeker]. The end is that of the state.
type State struct {
	ctx    context.Context
	client *podapi.Client
	attr   fsops.Attr

	// [http.ServeContent] reads several ranges in a goroutine of its own, which may outlive the answer.
	mu     sync.Mutex
	over   bool // it is read no more
	offset int64
	err    error          // by which a read failed
	stream *io.PipeReader // from offset on; nil until it is read
	cancel context.CancelFunc
}

// open returns the present state of a file. ctx is for all reads of it.
func open(ctx context.Context, c *podapi.Client, name string) (*State, error) {
	f, err := c.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return &State{ctx: ctx, client: c, attr: f.Attr()}, nil
}

// Attr describes the file.
func (s *State) Attr() fsops.Attr { return s.attr }

// Read implements [io.Reader].
func (s *State) Read(p []byte) (int, error) {
	stream := s.opened()
	if stream == nil {
		return 0, io.ErrClosedPipe
	}
	n, err := stream.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += int64(n)
	if err != nil && err != io.EOF && !s.over {
		s.err = err
	}
	return n, err
}

// opened returns the stream, or nil if the state is read no more.
func (s *State) opened() *io.PipeReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil && !s.over {
		s.begin()
	}
	return s.stream
}

func (s *State) begin() {
	ctx, cancel := context.WithCancel(s.ctx)
	r, w := io.Pipe()
	s.stream, s.cancel = r, cancel
	opened := func(now fsops.Attr) error {
		if now.ETag != s.attr.ETag {
			return ErrReplaced
		}
		return nil
	}
	options := fsops.ReadOptions{Offset: s.offset, Opened: opened}
	go func() {
		_, err := s.client.Read(ctx, s.attr.Path, w, options)
		w.CloseWithError(err)
	}()
}

// Seek implements [io.Seeker].
func (s *State) Seek(offset int64, whence int) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += s.offset
	case io.SeekEnd:
		offset += s.attr.Size
	}
	if offset != s.offset {
		s.leave()
	}
	s.offset = offset
	return offset, nil
}

// failed returns the error by which a read failed.
func (s *State) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close ends all reading.
func (s *State) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.leave()
}

// leave ends the stream.
func (s *State) leave() {
	if s.stream != nil {
		s.cancel()
		s.stream.Close()
		s.stream = nil
	}
}
