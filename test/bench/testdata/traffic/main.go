// Command traffic uses the way out of a sandbox, for benchmarks, which run it there. It finds the
// proxy by its environment, as programs do. Each line of its input is a request, which it answers
// with the nanoseconds that it took:
//
//	raw HOST:PORT SIZE      receive this many bytes of command echo
//	get URL SIZE            receive a page
//	connect HOST:PORT       connect to a host
//	open HOST:PORT COUNT    open so many connections to command echo, and keep them
//	echo SIZE ROUNDS        send this many bytes again and again by each of those, and receive them,
//	                        until each has got so many rounds of them; then end them all
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// bufferSize is that of command echo.
const bufferSize = 256 << 10

func main() {
	p := program{client: http.Client{Transport: &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the servers are of the benchmark's own
		ForceAttemptHTTP2: true,
	}}}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		begun := time.Now()
		if err := p.answer(strings.Fields(lines.Text())); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(int64(time.Since(begun)))
	}
}

type program struct {
	open   []net.Conn
	client http.Client
}

func (p *program) answer(request []string) error {
	if len(request) < 2 {
		return fmt.Errorf("the request is %q", request)
	}
	target := request[1]
	var numbers [2]int
	for i, word := range request[2:] {
		numbers[i], _ = strconv.Atoi(word) // the caller is a benchmark
	}
	switch request[0] {
	case "raw":
		return raw(target, int64(numbers[0]))
	case "get":
		return p.get(target, int64(numbers[0]))
	case "connect":
		conn, err := connect(target)
		if err == nil {
			err = conn.Close()
		}
		return err
	case "open":
		return p.openAll(target, numbers[0])
	case "echo":
		size, _ := strconv.Atoi(target)
		return p.echoAll(size, numbers[0])
	}
	return fmt.Errorf("unknown request %q", request)
}

// connect opens a connection by the proxy.
func connect(target string) (net.Conn, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect}) // nothing follows yet
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy says %s", answer.Status)
	}
	return conn, nil
}

func raw(target string, size int64) error {
	conn, err := connect(target)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(binary.BigEndian.AppendUint64([]byte{'r'}, uint64(size))); err != nil {
		return err
	}
	return receive(conn, size)
}

func (p *program) get(target string, size int64) error {
	answer, err := p.client.Get(target)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return receive(answer.Body, size)
}

func receive(r io.Reader, size int64) error {
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(r, size), make([]byte, bufferSize))
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes came: %w", n, io.ErrUnexpectedEOF)
	}
	return err
}

func (p *program) openAll(target string, count int) error {
	for range count {
		conn, err := connect(target)
		if err != nil {
			return err
		}
		if _, err := conn.Write([]byte{'e', 8: 0}); err != nil {
			return err
		}
		p.open = append(p.open, conn)
	}
	return nil
}

// echoAll moves bytes by all connections at once, in both directions: each goes on until all have got
// enough. Then it ends them.
func (p *program) echoAll(size, rounds int) error {
	group, ctx := errgroup.WithContext(context.Background())
	defer context.AfterFunc(ctx, func() { // what failed must not leave the others to go on for ever
		for _, conn := range p.open {
			conn.Close()
		}
	})()
	enough := make(chan struct{})
	var missing atomic.Int64
	missing.Store(int64(len(p.open)))
	for _, conn := range p.open {
		var sent int64
		over := make(chan struct{})
		group.Go(func() (err error) {
			defer close(over)
			sent, err = send(conn.(*net.TCPConn), size, enough)
			return err
		})
		group.Go(func() error {
			if err := receive(conn, int64(size)*int64(rounds)); err != nil {
				return err
			}
			if missing.Add(-1) == 0 {
				close(enough)
			}
			more, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, bufferSize))
			if <-over; err == nil && more+int64(size)*int64(rounds) != sent {
				err = fmt.Errorf("%d bytes of %d came: %w", more, sent, io.ErrUnexpectedEOF)
			}
			return err
		})
	}
	return group.Wait()
}

// send sends chunks until it is enough, and then the end.
func send(conn *net.TCPConn, size int, enough <-chan struct{}) (sent int64, err error) {
	for data := make([]byte, size); ; {
		select {
		case <-enough:
			return sent, conn.CloseWrite()
		default:
		}
		n, err := conn.Write(data)
		if sent += int64(n); err != nil {
			return sent, err
		}
	}
}
