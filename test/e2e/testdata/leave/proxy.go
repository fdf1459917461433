package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// tryHeader has the name of a try, for servers of HTTP.
const tryHeader = "X-Try"

// dialProxy connects to the sandbox's proxy.
func dialProxy() (net.Conn, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil || proxy.Host == "" {
		return nil, errors.New("there is no proxy")
	}
	conn, err := net.DialTimeout("tcp", proxy.Host, patience)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(2 * patience))
}

// throughProxy asks the proxy for HOST:PORT. The error is its refusal.
func throughProxy(host string) (net.Conn, error) {
	conn, err := dialProxy()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect}) // the host waits for us
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// connectByProxy takes HOST:PORT.
func connectByProxy(name string, args []string) (string, error) {
	conn, err := throughProxy(args[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, err = io.WriteString(conn, name)
	return "connected", err
}

// connectAgain takes HOST:PORT, and connects until that is refused, three times at most.
func connectAgain(name string, args []string) (string, error) {
	if result, err := connectByProxy(name, args); err != nil {
		return "", fmt.Errorf("for the first time it was refused, and never shows more: %s, %v", result, err)
	}
	for range 2 {
		if _, err := connectByProxy(name, args); err != nil {
			return "", err
		}
	}
	return "connected", nil
}

// requestByTLS takes HOST:PORT, where it connects by the proxy, the name in the hello, or -, and the
// Host of the request. A fourth word is the protocol, in place of HTTP/1.1: h2, or none for no TLS.
func requestByTLS(name string, args []string) (string, error) {
	conn, err := throughProxy(args[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	protocol := "http/1.1"
	if len(args) > 3 {
		protocol = args[3]
	}
	if protocol != "none" {
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
		if args[1] != "-" {
			config.ServerName = args[1]
		}
		secured := tls.Client(conn, config)
		if err := secured.Handshake(); err != nil {
			return "", err
		}
		conn = secured
	}
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: protocol == "h2",
		DialTLSContext:    func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	scheme := "https"
	if protocol == "none" {
		scheme = "http"
	}
	return fetch(client, name, scheme+"://"+args[2]+"/")
}

// get takes a URL, and follows where it leads, as programs do.
func get(name string, args []string) (string, error) {
	return fetch(&http.Client{Timeout: 2 * patience}, name, args[0])
}

func fetch(client *http.Client, name, address string) (string, error) {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set(tryHeader, name)
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return answer.Status + ": " + string(body), err
}

// say takes what the proxy is told, with the escapes of Go's strings, and NAME for the name of the try.
// It returns all that comes back until the proxy ends the connection.
func say(name string, args []string) (string, error) {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.Join(args, " "), "NAME", name) + `"`)
	if err != nil {
		return "", err
	}
	conn, err := dialProxy()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	said, err := io.ReadAll(io.LimitReader(conn, 4<<10))
	if bytes.ContainsFunc(said, func(r rune) bool { return r < ' ' && r != '\r' && r != '\n' }) {
		return fmt.Sprintf("% x", said), err
	}
	return string(said), err
}
