package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
)

func mirror(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) }

// echoes reports why what is sent by a connection to mirror does not come back.
func echoes(conn *net.TCPConn) error {
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

// tunnel opens a tunnel, which must be allowed.
func (f *front) tunnel(t *testing.T, host string, port int) *net.TCPConn {
	t.Helper()
	response, conn := f.connect(t, fmt.Sprintf("%s:%d", host, port))
	if response.StatusCode != 200 {
		t.Fatal(response.Status)
	}
	return conn
}

// What a changed policy refuses is reset, and the rest goes on.
func TestPolicyChangesWhileItRuns(t *testing.T) {
	going, staying := serveEach(t, mirror), serveEach(t, mirror)
	plain := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "begun")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	stay := named("staying.test", staying)
	f := newFront(t, Options{}, named("going.test", going), stay, named("going.test", plain))
	goes, stays := f.tunnel(t, "going.test", going), f.tunnel(t, "staying.test", staying)
	response, err := f.client(t, "http", nil).Get(fmt.Sprintf("http://going.test:%d/", plain))
	if err := errors.Join(err, echoes(goes), echoes(stays)); err != nil {
		t.Fatal(err)
	}
	f.SetPolicy(policyOf(t, stay))
	if err := echoes(goes); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("what is not allowed any more: %v", err)
	}
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("a download of what is not allowed any more goes on")
	}
	if err := echoes(stays); err != nil {
		t.Errorf("what is still allowed: %v", err)
	}
	if response, _ := f.connect(t, fmt.Sprintf("going.test:%d", going)); response.StatusCode != 403 {
		t.Errorf("a new connection: %s", response.Status)
	}
	for i := range 3 {
		if d := f.decision(3 + i); d.Verdict != Denied || d.Host != "going.test" {
			t.Errorf("of what is not allowed any more, the log says %+v", d)
		}
	}
}

func TestPolicyAllowsAgainWhatItAllowedBefore(t *testing.T) {
	port := serveEach(t, mirror)
	rule := named("going.test", port)
	f := newFront(t, Options{}, rule)
	f.SetPolicy(policyOf(t))
	f.SetPolicy(policyOf(t, rule))
	if err := echoes(f.tunnel(t, "going.test", port)); err != nil {
		t.Error(err)
	}
}

// The same name at another address is another host.
func TestNameWhoseAddressChangesIsReset(t *testing.T) {
	port := serveEach(t, mirror)
	f := newFront(t, Options{}, named("staying.test", port))
	conn := f.tunnel(t, "staying.test", port)
	f.SetPolicy(policyOf(t, fmt.Sprintf("staying.test=127.0.0.2:%d", port)))
	if err := echoes(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it ends by %v", err)
	}
}
