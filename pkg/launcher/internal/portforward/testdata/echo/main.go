// Command echo is the pod's side of benchmarks. It prints the port on which it
// listens, on the loopback. A connection sends requests, each a letter and a length
// of eight bytes: "e" has so many bytes sent back as they come, "r" sends as many,
// and "w" takes as many and answers with one byte.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
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
			// Its end is the client's doing, and the client sees it.
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
	from, to := io.Reader(io.LimitReader(conn, size)), io.Writer(conn)
	switch request[0] {
	case 'r':
		from = io.LimitReader(zeros{}, size)
	case 'w':
		to = io.Discard
	}
	// Without the wrappers the kernel would copy, which pods' programs do not do.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 256<<10))
	if err == nil && request[0] == 'w' {
		_, err = conn.Write([]byte{0})
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
