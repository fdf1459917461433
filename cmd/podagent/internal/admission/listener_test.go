package admission

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A test program that is started with this variable runs out of descriptors.
const runOut = "PODAGENT_TEST_RUN_OUT"

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// Those who connect wait for nothing, and when there are descriptors again, they are let in.
func TestWithoutDescriptorsNewcomersAreRefused(t *testing.T) {
	if os.Getenv(runOut) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), runOut+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	l, err := net.Listen("unix", fmt.Sprintf("@%s-%d", t.Name(), os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	gated := NewGate(Bounds{Strangers: 10, Known: 10}).Listener(l)
	accepted := make(chan net.Conn, 1)
	go func() {
		for {
			c, err := gated.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	let := func() net.Conn { // a first connection, and the runtime's own descriptors
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := let()
	defer first.Close()
	defer (<-accepted).Close()
	var sockets []int
	for range 3 {
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, s)
	}
	files := exhaust(t)
	for _, s := range sockets {
		if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(hung.Seconds())}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Connect(s, &unix.SockaddrUnix{Name: l.Addr().String()}); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(s, make([]byte, 1)); n != 0 || err != nil {
			t.Errorf("one who connects without descriptors gets %d bytes, %v", n, err)
		}
	}
	for _, f := range files {
		f.Close()
	}
	last := let()
	defer last.Close()
	select {
	case c := <-accepted:
		c.Close()
	case <-time.After(hung):
		t.Fatal("with descriptors again, nobody is let in")
	}
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the last one gets %v", err)
	}
}

// exhaust opens files until there are no descriptors.
func exhaust(t *testing.T) (files []*os.File) {
	t.Helper()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: 100}); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, unix.EMFILE) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
}
