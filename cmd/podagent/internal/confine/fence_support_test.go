//go:build !race

package confine

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// surroundings are what is outside of a fence: sockets that anybody may reach, a process, and
// an accomplice that passes on descriptors.
type surroundings struct {
	words []string // in braces, each with what it stands for
	open  int      // the port that the fence lets pass
	// shut are the sockets that the fence shuts off.
	shut []int
	// socket is one of TCP that was made outside.
	socket *os.File
}

func newSurroundings(t *testing.T) *surroundings {
	t.Helper()
	s := &surroundings{}
	path := filepath.Join(t.TempDir(), "socket")
	abstract := "podagent-test-" + strconv.Itoa(os.Getpid())
	s.name("path", path)
	s.name("abstract", abstract)

	localhost, another, localhost6 := [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2}, [16]byte{15: 1}
	open := listening(t, inet, tcp, &unix.SockaddrInet4{Addr: localhost})
	s.open = portOf(t, open)
	s.name("open", strconv.Itoa(s.open))
	listening(t, inet, tcp, &unix.SockaddrInet4{Addr: another, Port: s.open})
	listening(t, unix.AF_UNIX, tcp, &unix.SockaddrUnix{Name: path})
	listening(t, unix.AF_UNIX, udp, &unix.SockaddrUnix{Name: path + "-datagram"})

	shut := listening(t, inet, tcp, &unix.SockaddrInet4{Addr: localhost})
	shut6 := listening(t, inet6, tcp, &unix.SockaddrInet6{Addr: localhost6})
	datagrams := listening(t, inet, udp, &unix.SockaddrInet4{Addr: localhost})
	s.name("shut", strconv.Itoa(portOf(t, shut)))
	s.name("shut6", strconv.Itoa(portOf(t, shut6)))
	s.name("udp", strconv.Itoa(portOf(t, datagrams)))
	s.shut = []int{
		shut, shut6, datagrams,
		listening(t, inet, tcp, &unix.SockaddrInet4{Addr: another, Port: portOf(t, shut)}),
		listening(t, unix.AF_UNIX, tcp, &unix.SockaddrUnix{Name: "@" + abstract}),
		listening(t, unix.AF_UNIX, udp, &unix.SockaddrUnix{Name: "@" + abstract + "-datagram"}),
	}
	s.passOn(t, path+"-connection", func() *os.File { return connected(t, portOf(t, shut)) })
	s.passOn(t, path+"-udp", func() *os.File { return unconnected(t, udp) })
	s.passOn(t, path+"-tcp", func() *os.File { return unconnected(t, tcp) })
	s.socket = unconnected(t, tcp)
	t.Cleanup(func() { s.socket.Close() })
	s.startOutside(t)
	return s
}

func (s *surroundings) name(word, value string) { s.words = append(s.words, "{"+word+"}", value) }

func (s *surroundings) replacer() *strings.Replacer { return strings.NewReplacer(s.words...) }

// listening opens a socket, which takes what comes without anybody who looks at it.
func listening(t *testing.T, domain, kind int, address unix.Sockaddr) int {
	t.Helper()
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, address); err != nil {
		t.Fatal(err)
	}
	if kind == tcp {
		if err := unix.Listen(fd, 128); err != nil {
			t.Fatal(err)
		}
	}
	return fd
}

func portOf(t *testing.T, fd int) int {
	t.Helper()
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	t.Fatalf("%T has no port", name)
	return 0
}

// arrived counts what has come to the sockets that the fence shuts off since it was last
// called.
func (s *surroundings) arrived() (n int) {
	for _, fd := range s.shut {
		for {
			if conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC); err == nil {
				unix.Close(conn)
			} else if _, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_DONTWAIT); err != nil {
				break
			}
			n++
		}
	}
	return n
}

// unconnected is a socket that was made outside of the fence.
func unconnected(t *testing.T, kind int) *os.File {
	fd, err := unix.Socket(inet, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
	}
	return os.NewFile(uintptr(fd), "socket")
}

func connected(t *testing.T, port int) *os.File {
	f := unconnected(t, tcp)
	if err := unix.Connect(int(f.Fd()), &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}); err != nil {
		t.Error(err)
	}
	return f
}

// passOn gives a descriptor to each who connects to the path.
func (s *surroundings) passOn(t *testing.T, path string, open func() *os.File) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			f := open()
			if _, _, err := conn.WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil); err != nil {
				t.Error(err)
			}
			f.Close()
			conn.Close()
		}
	}()
}

// startOutside starts a process of the same user outside of the fence, with a socket of UDP.
func (s *surroundings) startOutside(t *testing.T) {
	t.Helper()
	socket := unconnected(t, udp)
	defer socket.Close()
	cmd := exec.CommandContext(t.Context(), "sleep", "300")
	cmd.ExtraFiles = []*os.File{socket}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	s.name("pid", strconv.Itoa(cmd.Process.Pid))
}
