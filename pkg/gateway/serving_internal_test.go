package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections keep nothing on the way.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// servePipe serves one connection, and returns the caller's end.
func servePipe(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	listener, server := make(pipes, 1), &http.Server{Handler: handler}
	ours, theirs := net.Pipe()
	listener <- theirs
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		close(listener)
		ours.Close()
		server.Close()
		<-done
	})
	return ours
}

func TestCallerThatReadsNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		conn := servePipe(t, func(w http.ResponseWriter, _ *http.Request) {
			p := &patientWriter{ResponseWriter: w}
			_, _ = io.WriteString(p, "begun")
			_ = http.NewResponseController(p).Flush()
			time.Sleep(10 * answerSilence) // with nothing to say
			_, err := p.Write(make([]byte, 10*answerPart))
			failed <- err
		})
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		read := 0
		for buffer := make([]byte, answerPart); read < 5*answerPart; {
			n, err := conn.Read(buffer) // slowly
			if err != nil {
				t.Fatal(err)
			}
			read += n
			time.Sleep(answerSilence / 100)
		}
		begun := time.Now()
		if err := <-failed; err == nil {
			t.Error("all was written")
		}
		if took := time.Since(begun); took > answerSilence {
			t.Errorf("it took %v", took)
		}
	})
}

func TestConnectionThatWasTakenOverIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		time.Sleep(10 * answerSilence)
		begun := time.Now()
		if _, err := (&patientConn{theirs}).Write([]byte("x")); err == nil || time.Since(begun) != answerSilence {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestGatewayIsReadyWhileTheLauncherHasAnsweredLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, away := atomic.Int32{}, atomic.Bool{}
		r := &reach{ask: func(context.Context) error {
			if asked.Add(1); away.Load() {
				return errors.New("the API server is away")
			}
			return nil
		}}
		away.Store(true)
		if err := r.check(t.Context()); err == nil || !strings.Contains(err.Error(), "the API server is away") {
			t.Errorf("before the first answer: %v", err)
		}
		away.Store(false)
		time.Sleep(reachInterval)
		for range 10 {
			if err := r.check(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("it was asked %d times", n)
		}
		away.Store(true)
		for begun := time.Now(); time.Since(begun) < reachableFor; time.Sleep(time.Second) {
			if err := r.check(t.Context()); err != nil {
				t.Errorf("%v later: %v", time.Since(begun), err)
			}
		}
		if err := r.check(t.Context()); err == nil {
			t.Error("it is ready, though the launcher was away for long")
		}
		away.Store(false)
		time.Sleep(reachInterval)
		_ = r.check(t.Context()) // which asks
		synctest.Wait()
		if err := r.check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A launcher that hangs holds up no probe for longer than that waits.
func TestReadinessDoesNotWaitForALauncherThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reach{ask: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.check(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		r.answered = time.Now()
		if err := r.check(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(reachTime)
	})
}

// slowLeader takes as long as a Lease of an API server that is away.
type slowLeader struct{}

func (slowLeader) Lead(ctx context.Context, _ func(context.Context)) {
	<-ctx.Done()
	time.Sleep(15 * time.Second)
}

// Whoever ends a gateway counts on its end: what does not end by itself costs no more than its time.
func TestShutdownTakesNoLongerThanItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Leader: slowLeader{}})
		_, done := g.streams.begin(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		defer done()
		leave, ok := g.streams.enter()
		if !ok {
			t.Fatal("no stream may begin")
		}
		defer leave()
		const patience = 20 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		begun := time.Now()
		if err := g.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > patience+lastTime {
			t.Errorf("it took %v", took)
		}
	})
}
