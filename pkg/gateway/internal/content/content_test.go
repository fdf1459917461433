package content

import (
	"errors"
	"io"
	"net/http/httptest"
	"testing"
)

// The goroutine of http.ServeContent that reads several ranges goes on when the answer has ended.
func TestStateThatIsOverIsReadNoMore(t *testing.T) {
	r, _ := io.Pipe()
	s := &State{stream: r, cancel: func() {}}
	reading := make(chan error)
	go func() {
		_, err := s.Read(make([]byte, 1))
		reading <- err
	}()
	s.close()
	if err := <-reading; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a read that was under way: %v", err)
	}
	if _, err := s.Seek(1, io.SeekStart); err != nil {
		t.Error(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a later read: %v", err)
	}
	if err := s.failed(); err != nil {
		t.Errorf("the end is told as a failure: %v", err)
	}
}

func TestAnswerWithoutABodyKeepsItsLength(t *testing.T) {
	a := &lateAnswer{ResponseWriter: httptest.NewRecorder(), status: 200}
	a.Header().Set("Content-Length", "10")
	if began, err := a.end(&State{}); !began || err != nil || a.Header().Get("Content-Length") != "10" {
		t.Errorf("%t, %v, %v", began, err, a.Header())
	}
}

func TestErrorInPlaceOfContentHasALengthOfItsOwn(t *testing.T) {
	failed := errors.New("it cannot be read")
	a := &lateAnswer{ResponseWriter: httptest.NewRecorder(), status: 206}
	for _, name := range []string{"Content-Length", "Content-Range", "Accept-Ranges"} {
		a.Header().Set(name, "10")
	}
	if began, err := a.end(&State{err: failed}); began || !errors.Is(err, failed) || len(a.Header()) > 0 {
		t.Errorf("%t, %v, %v", began, err, a.Header())
	}
}
