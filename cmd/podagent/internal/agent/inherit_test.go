package agent

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inFlightUser is a user of one test alone, of whose descriptors under way it uses up all.
const inFlightUser = 61801

// Another sandbox of the user has as many descriptors under way as the user may. That costs callers who call
// meanwhile, and nothing else.
func TestPassingOutlivesAUserWithoutDescriptors(t *testing.T) {
	const inside = "PODAGENT_TEST_IN_FLIGHT"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+hung.String())
		cmd.Env = append(os.Environ(), inside+"=1")
		if os.Geteuid() == 0 { // whom the kernel refuses nothing
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: inFlightUser, Gid: inFlightUser}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	call, passed, ended := passing(t)
	call(true)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: 100}); err != nil {
		t.Fatal(err)
	}
	free := useUpInFlight(t)
	call(false)
	call(false)
	free()
	call(true)
	passed.Close()
	call(false)
	if err := <-ended; err != nil {
		t.Errorf("when the other program has ended: %v", err)
	}
}

// passing passes connections of a socket on to another listener. call makes one, and checks whether it arrives or is
// closed. ended gets the error of Pass.
func passing(t *testing.T) (call func(arrives bool), passed net.Listener, ended chan error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	opened, err := Bind([]string{"unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	here, there := pair(t)
	ended = make(chan error, 1)
	go func() { ended <- Pass(opened[0], here, false) }()
	if passed, err = newPassed(there); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { passed.Close() })
	arrivals := make(chan net.Conn)
	go func() {
		for conn, err := passed.Accept(); err == nil; conn, err = passed.Accept() {
			arrivals <- conn
		}
	}()
	awaitListener(t, "unix:"+path)
	(<-arrivals).Close()
	return func(arrives bool) {
		t.Helper()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		closed := make(chan error, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			closed <- err
		}()
		select {
		case other := <-arrivals:
			other.Close()
			if !arrives {
				t.Error("a connection arrives, although there is no room for descriptors under way")
			}
		case err := <-closed:
			if arrives {
				t.Errorf("a connection ends with %v before it arrives", err)
			}
		case <-time.After(hung):
			t.Fatal("a connection neither arrives nor ends")
		}
	}, passed, ended
}

// useUpInFlight sends descriptors that nobody receives until the kernel refuses more, and returns what closes them.
func useUpInFlight(t *testing.T) (free func()) {
	t.Helper()
	here, there := pair(t)
	for range 1000 {
		err := unix.Sendmsg(int(here.Fd()), []byte{0}, unix.UnixRights(0, 0, 0, 0, 0, 0, 0, 0, 0, 0), nil, 0)
		if errors.Is(err, unix.ETOOMANYREFS) {
			return func() { here.Close(); there.Close() }
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the kernel refuses no descriptors under way")
	return nil
}

func pair(t *testing.T) (here, there *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "here"), os.NewFile(uintptr(fds[1]), "there")
}

// An agent without a free descriptor gets the message without its connection. Later ones arrive.
func TestPassedListenerGoesOnAfterAConnectionThatIsLost(t *testing.T) {
	here, there := pair(t)
	passed, err := newPassed(there)
	if err != nil {
		t.Fatal(err)
	}
	lost, sent := pair(t)
	defer lost.Close()
	defer sent.Close()
	for _, rights := range [][]byte{nil, unix.UnixRights(int(sent.Fd()))} {
		if err := unix.Sendmsg(int(here.Fd()), []byte{0}, rights, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := passed.Accept()
	if err != nil {
		t.Fatalf("after a message without a connection: %v", err)
	}
	conn.Close()
	here.Close()
	if _, err := passed.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("when the other program has ended: %v", err)
	}
	passed.Close()
}
