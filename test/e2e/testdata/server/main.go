// Command server has the servers that tests reach by their ports, all on loopback
// only. It prints a line with the name and port of each, then "ready" when all are
// listening, and serves until it is killed. The environment variable PORT is the port of http,
// which otherwise the system chooses.
package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/gorilla/websocket"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	var s state
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	mux.HandleFunc("POST /sum", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, sum(r.Body)) })
	mux.HandleFunc("GET /last", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.get()) })
	mux.HandleFunc("GET /socket", echoMessages)
	mux.HandleFunc("GET /private.git/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	})
	web, err := listen("http", "127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "0"))
	if err != nil {
		return err
	}
	for name, answer := range map[string]func(*net.TCPConn){
		"echo":  echo,
		"sum":   func(conn *net.TCPConn) { fmt.Fprint(conn, sum(conn)) },
		"bytes": sendBytes,
		"reset": func(conn *net.TCPConn) {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.SetLinger(0)
		},
		"first": func(conn *net.TCPConn) { // it closes its direction first
			_, _ = io.WriteString(conn, "bye")
			_ = conn.CloseWrite()
			rest, err := io.ReadAll(conn)
			s.set(fmt.Sprintf("%s, %v", rest, err))
		},
		"stuck": func(*net.TCPConn) { select {} },
	} {
		l, err := listen(name, "127.0.0.1:0")
		if err != nil {
			return err
		}
		go accept(l, answer)
	}
	ipv6, err := listen("echo6", "[::1]:0")
	if err != nil {
		return err
	}
	go accept(ipv6, echo)
	fmt.Println("ready")
	return http.Serve(web, mux)
}

func listen(name, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		fmt.Println(name, l.Addr().(*net.TCPAddr).Port)
	}
	return l, err
}

func accept(l net.Listener, answer func(*net.TCPConn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			answer(conn.(*net.TCPConn))
		}()
	}
}

func echo(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) }

// sum returns the SHA-256 and the length of r, and how r ended.
func sum(r io.Reader) string {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return fmt.Sprintf("%x %d %v", h.Sum(nil), n, err)
}

// sendBytes sends the requested number of bytes, in decimal, from a generator that
// the test also has.
func sendBytes(conn *net.TCPConn) {
	var n int64
	if _, err := fmt.Fscanln(conn, &n); err == nil {
		_, _ = io.CopyN(conn, rand.NewChaCha8([32]byte{1}), n)
	}
}

// echoMessages sends the messages of a WebSocket back.
func echoMessages(w http.ResponseWriter, r *http.Request) {
	conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		kind, data, err := conn.ReadMessage()
		if err == nil {
			err = conn.WriteMessage(kind, data)
		}
		if err != nil {
			return
		}
	}
}

// state is what the server "first" has read.
type state struct {
	mu   sync.Mutex
	last string
}

func (s *state) set(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = text
}

func (s *state) get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}
