package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resolve takes a name, which the sandbox's resolver is asked for.
func resolve(_ string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := new(net.Resolver).LookupHost(ctx, args[0])
	if d := (*net.DNSError)(nil); errors.As(err, &d) && d.IsNotFound {
		return "answered", nil // that there is no such name
	}
	return "answered", err
}

// reachByUnix takes a path, or an abstract name behind an @.
func reachByUnix(name string, args []string) (string, error) {
	conn, err := net.DialTimeout("unix", args[0], patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(name))
	return "connected", err
}

// openFile takes a path, in which {agent} is the process of the agent.
func openFile(_ string, args []string) (string, error) {
	path := strings.ReplaceAll(args[0], "{agent}", strconv.Itoa(os.Getppid()))
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if stat, err := f.Stat(); err == nil && stat.IsDir() {
		_, err = f.Readdirnames(1)
		return opened(err)
	}
	_, err = f.Read(make([]byte, 1))
	return opened(err)
}

// takeDescriptor takes a socket of the agent out of its process.
func takeDescriptor(string, []string) (string, error) {
	process, err := unix.PidfdOpen(os.Getppid(), 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(process)
	for number := range 64 {
		var fd int
		if fd, err = unix.PidfdGetfd(process, number, 0); err == nil {
			unix.Close(fd)
			return "opened", nil
		}
	}
	return "", err
}

// lookAtInherited looks for what else than three pipes the program got at its start.
func lookAtInherited(string, []string) (string, error) {
	for number, what := range inherited {
		if number > 2 || !strings.HasPrefix(what, "pipe:") {
			fmt.Fprintf(os.Stderr, "descriptor %d is %s\n", number, what)
			return "opened", nil
		}
	}
	return "", fmt.Errorf("there are %d pipes", len(inherited))
}

// enterNetwork takes the path of a network namespace.
func enterNetwork(_ string, args []string) (string, error) {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return opened(unix.Setns(fd, unix.CLONE_NEWNET))
}

// changeInterface changes the network itself, here by taking an interface down.
func changeInterface(string, []string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err == nil {
		request.SetUint16(unix.IFF_UP | unix.IFF_PROMISC)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	}
	return opened(err)
}

func makeTunnel(string, []string) (string, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("")
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	return opened(err)
}

// reachByVsock takes the number of a machine, and a port.
func reachByVsock(name string, args []string) (string, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	machine, _ := strconv.ParseUint(args[0], 10, 32)
	port, _ := strconv.ParseUint(args[1], 10, 32)
	return reachByStream(fd, &unix.SockaddrVM{CID: uint32(machine), Port: uint32(port)}, []byte(name))
}

func uring() error {
	var params [256]byte
	_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// requestKey has the kernel ask its resolver, outside of the pod.
func requestKey() error {
	_, err := unix.RequestKey("dns_resolver", "example.com", "", unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}
