package admission

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// lacking is a listener that first fails for want of something, as where other programs of the user have used that up.
type lacking struct {
	net.Listener
	lacks []error
}

func (l *lacking) Accept() (net.Conn, error) {
	if len(l.lacks) == 0 {
		return l.Listener.Accept()
	}
	err := l.lacks[0]
	l.lacks = l.lacks[1:]
	return nil, &net.OpError{Op: "accept", Net: "unix", Err: err}
}

func TestPatientListenerEndsOnlyWhenItIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	real, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	// ENOSPC is what Linux answers when a user's watches of epoll are used up.
	l := Patient(&lacking{real, []error{unix.ENOSPC, unix.ENOMEM, unix.ENOBUFS, unix.EMFILE, unix.EPERM}})
	caller, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatalf("after a lack: %v", err)
	}
	conn.Close()
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("when it is closed: %v", err)
	}
}
