package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// callAgent calls the agent without a key.
func callAgent(string, []string) (string, error) {
	conn, err := net.DialTimeout("tcp", "127.0.0.1:7463", patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if _, err := secured.Read(make([]byte, 1)); err != nil { // the agent speaks first, with those that it lets in
		return "", err
	}
	return "answered", nil
}

// askListeners takes HOST:PORT, where it asks all that listens in the sandbox to connect to, by TCP and
// by unix sockets, but for those with one of the other words in their address, which are of other tries.
func askListeners(name string, args []string) (string, error) {
	var heard []string
	for _, at := range listeners() {
		if slices.ContainsFunc(args[1:], func(word string) bool { return strings.Contains(at.address, word) }) {
			continue
		}
		for _, request := range []string{
			"CONNECT " + args[0] + " HTTP/1.1\r\nHost: " + args[0] + "\r\n\r\n",
			"GET http://" + args[0] + "/ HTTP/1.1\r\nHost: " + args[0] + "\r\n" + tryHeader + ": " + name + "\r\n\r\n",
		} {
			line, err := askListener(at, request)
			if strings.Contains(line, " 200 ") {
				return "connected", nil
			}
			heard = append(heard, fmt.Sprint(at.address, ": ", strings.TrimSpace(line), " ", err))
		}
	}
	return "", errors.New(strings.Join(heard, "; "))
}

func askListener(at listener, request string) (string, error) {
	conn, err := net.DialTimeout(at.network, at.address, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte(request)); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

type listener struct{ network, address string }

// listeners are those of the sandbox's network, as the kernel lists them.
func listeners() (all []listener) {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, fields := range table(file) {
			_, hex, _ := strings.Cut(fields[1], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil && fields[3] == "0A" {
				all = append(all, listener{"tcp", fmt.Sprint("127.0.0.1:", port)})
			}
		}
	}
	for _, fields := range table("/proc/net/unix") {
		if len(fields) > 7 && fields[3] == "00010000" { // it listens
			all = append(all, listener{"unix", fields[7]})
		}
	}
	return all
}

// table is a file of the kernel's, without its head.
func table(file string) (rows [][]string) {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 3 {
			rows = append(rows, fields)
		}
	}
	return rows[min(1, len(rows)):]
}
