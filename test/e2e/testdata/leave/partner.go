package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bePartner helps tries from elsewhere: from another pod, or from outside of the fence of this one. It
// prints a line when it is ready, and ends with its input.
//
//	relay PORT HOST:PORT             connects whoever connects to PORT with the host
//	collect HOST:PORT ADDRESS...     tells the host what each address serves, once it is reached
//	pass PATH HOST:PORT              gives those that connect to PATH-tcp a connection to the host, and
//	                                 to PATH-udp a socket of UDP; whoever connects to PATH, or to
//	                                 the abstract @PATH, is connected with the host
func bePartner(role string, args []string) error {
	var err error
	switch role {
	case "relay":
		err = serveConns("tcp", ":"+args[0], func(c net.Conn) { join(c, args[1]) })
	case "collect":
		for _, address := range args[1:] {
			go collect(address, args[0])
		}
	case "pass":
		err = errors.Join(
			serveConns("unix", args[0], func(c net.Conn) { join(c, args[1]) }),
			serveConns("unix", "@"+args[0], func(c net.Conn) { join(c, args[1]) }),
			serveConns("unix", args[0]+"-tcp", func(c net.Conn) {
				if to, err := net.DialTimeout("tcp", args[1], patience); err == nil {
					pass(c, to.(*net.TCPConn))
				}
			}),
			serveConns("unix", args[0]+"-udp", func(c net.Conn) {
				if socket, err := net.ListenUDP("udp4", nil); err == nil {
					pass(c, socket)
				}
			}),
		)
	default:
		err = fmt.Errorf("no role %s", role)
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serveConns listens, and serves each connection until it returns.
func serveConns(network, address string, serve func(net.Conn)) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return nil
}

// join carries what a connection and a host say to each other, until the host ends.
func join(c net.Conn, host string) {
	to, err := net.DialTimeout("tcp", host, patience)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, c) }()
	_, _ = io.Copy(c, to)
}

// collect reads what an address serves, and tells the host.
func collect(address, host string) {
	for ; ; time.Sleep(50 * time.Millisecond) { // it may not serve yet
		conn, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			continue
		}
		join(conn, host)
		conn.Close()
	}
}

// pass gives a descriptor away.
func pass(c net.Conn, what interface{ File() (*os.File, error) }) {
	f, err := what.File()
	if err != nil {
		return
	}
	defer f.Close()
	_, _, _ = c.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil)
}

// reachByRelay takes the path of a socket that leads to a host, by a partner.
func reachByRelay(name string, args []string) (string, error) {
	conn, err := net.DialTimeout("unix", args[0], patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, name); err != nil {
		return "", err
	}
	_, err = conn.Read(make([]byte, 1))
	return "answered", err
}

// serveFirst takes a port, and tells the first that connects.
func serveFirst(name string, args []string) (string, error) {
	l, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return "", err
	}
	defer l.Close()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(2 * patience)) // whoever comes asks many
	conn, err := l.Accept()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, name); err != nil {
		return "", err
	}
	_, err = conn.Read(make([]byte, 1)) // of the host, by whoever has connected
	return "answered", err
}

// useReceived takes the path of a partner, and HOST:PORT if the socket that it passes is of UDP.
func useReceived(name string, args []string) (string, error) {
	conn, err := net.DialTimeout("unix", args[0], patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return "", err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) == 0 {
		return "", errors.Join(err, errors.New("no socket came"))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return "", err
	}
	defer unix.Close(fds[0])
	if len(args) == 1 {
		if _, err := unix.Write(fds[0], []byte(name)); err != nil {
			return "", err
		}
		return awaitAnswer(fds[0], "sent, and not answered")
	}
	to, err := net.ResolveUDPAddr("udp4", args[1])
	if err != nil {
		return "", err
	}
	if err := unix.Sendto(fds[0], []byte(name), 0, &unix.SockaddrInet4{Addr: [4]byte(to.IP.To4()), Port: to.Port}); err != nil {
		return "", err
	}
	return awaitAnswer(fds[0], "sent, and not answered")
}
