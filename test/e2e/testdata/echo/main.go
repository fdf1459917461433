// Command echo is the other end of raw bytes: benchmarks run it in a pod, and
// compare what passes through a sandbox with what the same way carries without
// one.
//
// It prints the port where it listens, on the loopback or at the address that it
// is given. A connection sends requests, each a letter and a length of eight
// bytes: "e" has all that follows sent back as it comes, "r" sends so many bytes,
// and "w" takes as many and answers with one.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
)

// bufferSize is the chunk size of podagent's transfers.
const bufferSize = 256 << 10

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	address := "127.0.0.1:0"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			// Its end is whatever the caller does: it sees it itself.
			for err := error(nil); err == nil; {
				err = answer(conn)
			}
		}()
	}
}

// answer answers one request.
func answer(conn net.Conn) error {
	var request [9]byte
	if _, err := io.ReadFull(conn, request[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint64(request[1:]))
	switch buf := make([]byte, bufferSize); request[0] {
	case 'e':
		_, err := io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, buf)
		return err
	case 'r':
		_, err := io.CopyBuffer(struct{ io.Writer }{conn}, io.LimitReader(zeros{}, size), buf)
		return err
	case 'w':
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(conn, size), buf); err != nil {
			return err
		}
		_, err := conn.Write([]byte{0})
		return err
	}
	return fmt.Errorf("unknown request %q", request[0])
}

// zeros yields as many bytes as are asked for, which are what they are.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
