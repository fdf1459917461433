// Command leave tries ways out of a pod. Each line of its input is a try: a name, a tab, and the words
// of a way. It makes all tries at once, and prints each name, a tab, and what came of it: "connected",
// "answered" or "opened" if the way leads out as far as can be seen from inside, or else an error. What is
// sent is the name, so that whoever gets it knows which try it was.
//
// With arguments it is a partner of the tries: see partner.go.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the wait for an answer of a server nearby.
const patience = 8 * time.Second

func main() {
	if len(os.Args) > 1 {
		if err := bePartner(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var tries sync.WaitGroup
	var printing sync.Mutex
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		name, way, _ := strings.Cut(in.Text(), "\t")
		tries.Go(func() {
			runtime.LockOSThread() // some ways change the thread, which ends with the goroutine
			result, err := leave(name, strings.Fields(way))
			if err != nil {
				result = err.Error()
			}
			printing.Lock()
			defer printing.Unlock()
			fmt.Printf("%s\t%s\n", name, strings.ReplaceAll(result, "\n", " "))
		})
	}
	tries.Wait()
}

func leave(name string, words []string) (string, error) {
	way, args := words[0], words[1:]
	if special, ok := specials[way]; ok {
		return special(name, args)
	}
	return "", fmt.Errorf("no way %s", way)
}

var specials = map[string]func(name string, args []string) (string, error){
	"socket":  reachBySocket,
	"made":    makeSocket,
	"resolve": resolve,
	"unix":    reachByUnix,
	"open":    openFile,
	"setns":   enterNetwork,
	"unshare": func(string, []string) (string, error) {
		return opened(unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNET))
	},
	"flags":    changeInterface,
	"tunnel":   makeTunnel,
	"vsock":    reachByVsock,
	"uring":    func(string, []string) (string, error) { return opened(uring()) },
	"take":     takeDescriptor,
	"inherit":  lookAtInherited,
	"agent":    callAgent,
	"ask":      askListeners,
	"serve":    serveFirst,
	"relay":    reachByRelay,
	"receive":  useReceived,
	"connect":  connectByProxy,
	"rebind":   connectAgain,
	"tls":      requestByTLS,
	"get":      get,
	"say":      say,
	"lookedup": func(string, []string) (string, error) { return opened(requestKey()) },
}

func opened(err error) (string, error) { return "opened", err }

// reachBySocket takes DOMAIN TYPE PROTOCOL HOST:PORT, and what is set before.
func reachBySocket(name string, args []string) (string, error) {
	fd, err := socket(args)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	to, err := netip.ParseAddrPort(args[3])
	if err != nil {
		return "", err
	}
	data := []byte(name)
	for _, option := range args[4:] {
		if option == "large" { // in several fragments
			data = append(data, make([]byte, 8000)...)
			continue
		}
		if done, err := set(fd, option, to, data); done || err != nil {
			return "connected", err
		}
	}
	if args[1] == strconv.Itoa(unix.SOCK_STREAM) || args[1] == strconv.Itoa(unix.SOCK_SEQPACKET) {
		return reachByStream(fd, address(to, args[0]), data)
	}
	if args[2] == strconv.Itoa(unix.IPPROTO_ICMP) {
		data = append([]byte{8, 0, 0, 0, 0, 0, 0, 1}, data...) // the kernel adds number and checksum
	}
	if err := unix.Sendto(fd, data, 0, address(to, args[0])); err != nil {
		return "", err
	}
	return awaitAnswer(fd, "sent, and not answered")
}

func socket(args []string) (int, error) {
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[i]); err != nil {
			return -1, err
		}
	}
	return unix.Socket(n[0], n[1]|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, n[2])
}

func makeSocket(_ string, args []string) (string, error) {
	_, err := socket(args)
	return opened(err)
}

func address(to netip.AddrPort, domain string) unix.Sockaddr {
	if domain == strconv.Itoa(unix.AF_INET) {
		return &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	a := &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	if device, err := net.InterfaceByName("eth0"); err == nil && !to.Addr().Is4() && !to.Addr().Is4In6() {
		a.ZoneId = uint32(device.Index)
	}
	return a
}

// set prepares a socket. It reports whether that has reached the server.
func set(fd int, option string, to netip.AddrPort, data []byte) (done bool, err error) {
	name, value, _ := strings.Cut(option, "=")
	n, _ := strconv.Atoi(value)
	switch name {
	case "fastopen":
		err = unix.Sendto(fd, data, unix.MSG_FASTOPEN, address(to, strconv.Itoa(unix.AF_INET)))
		if errors.Is(err, unix.EINPROGRESS) {
			err = awaitConnection(fd)
		}
		return true, err
	case "fastconnect":
		return false, unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
	case "repair":
		return false, unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, 1)
	case "broadcast":
		return false, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	case "from":
		return false, unix.Bind(fd, &unix.SockaddrInet4{Port: n})
	case "device":
		return false, unix.BindToDevice(fd, value)
	case "mark":
		return false, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, n)
	case "route": // loose source routing by the server itself
		hop := to.Addr().As4()
		return false, unix.SetsockoptString(fd, unix.SOL_IP, unix.IP_OPTIONS, string(append([]byte{131, 7, 4}, append(hop[:], 1)...)))
	case "transparent":
		return false, unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
	}
	return false, fmt.Errorf("no option %s", name)
}

func reachByStream(fd int, to unix.Sockaddr, data []byte) (string, error) {
	if err := unix.Connect(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return "", err
	}
	if err := awaitConnection(fd); err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, data); err != nil {
		return "", err
	}
	if answer, err := awaitAnswer(fd, "connected"); err == nil {
		return answer, nil
	}
	return "connected", nil // and reset
}

func awaitConnection(fd int) error {
	if !poll(fd, unix.POLLOUT) {
		return errors.New("no answer")
	}
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && n != 0 {
		err = unix.Errno(n)
	}
	return err
}

// awaitAnswer returns "answered" if the socket gets anything, or otherwise silence.
func awaitAnswer(fd int, silence string) (string, error) {
	if !poll(fd, unix.POLLIN) {
		return silence, nil
	}
	if _, _, err := unix.Recvfrom(fd, make([]byte, 64), 0); err != nil {
		return "", err
	}
	return "answered", nil
}

func poll(fd int, events int16) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, int(time.Until(deadline).Milliseconds())+1)
		if err == nil {
			return n > 0
		}
	}
	return false
}
