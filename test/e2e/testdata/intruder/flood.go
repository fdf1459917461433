package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/podapi"
)

// preface is how an HTTP/2 client begins: with settings that are empty.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// floodWidth is how many connections or streams a flood opens at once.
const floodWidth = 64

// A flooder floods an agent. The newest of its connections stay open.
type flooder struct {
	address string
	caller  *tls.Config // with the identity
	hello   []byte      // of a TLS handshake
	health  healthpb.HealthClient

	mu   sync.Mutex
	held []net.Conn
	next int // the place of the next connection
}

// flood opens that many of something, with the identity in standard input if it needs
// one. It prints how often the agent was reached, and goes on: it opens others in their
// place.
func flood(kind string, number int, address string) error {
	f, err := newFlooder(address, number)
	if err != nil {
		return err
	}
	open := map[string]func() error{
		"half-open handshakes": f.beginHandshake, "idle connections": f.call, "health streams": f.watch,
	}[kind]
	if open == nil {
		return fmt.Errorf("unknown flood %q", kind)
	}
	fmt.Println(repeated(open, number))
	for {
		repeated(open, number)
	}
}

func newFlooder(address string, most int) (*flooder, error) {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	identity, err := podapi.ParseIdentity(data)
	if err != nil {
		return nil, err
	}
	f := &flooder{address: address, held: make([]net.Conn, most)}
	if f.caller, err = identity.ClientTLS(""); err != nil {
		return nil, err
	}
	f.caller.CurvePreferences = []tls.CurveID{tls.X25519} // the cheapest
	if f.hello, err = clientHello(); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(f.caller)))
	if err != nil {
		return nil, err
	}
	f.health = healthpb.NewHealthClient(conn)
	return f, nil
}

// repeated returns how often open succeeded.
func repeated(open func() error, number int) (opened int) {
	results, free := make(chan error, number), make(chan struct{}, floodWidth)
	for range number {
		free <- struct{}{}
		go func() {
			results <- open()
			<-free
		}()
	}
	for range number {
		if <-results == nil {
			opened++
		}
	}
	return opened
}

func (f *flooder) dial() (net.Conn, error) {
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.held[f.next]; old != nil {
		old.Close()
	}
	f.held[f.next] = conn
	f.next = (f.next + 1) % len(f.held)
	return conn, nil
}

func (f *flooder) beginHandshake() error {
	conn, err := f.dial()
	if err == nil {
		_, err = conn.Write(f.hello)
	}
	return err
}

// call connects with the identity, and makes no call.
func (f *flooder) call() error {
	conn, err := f.dial()
	if err == nil {
		_, err = tls.Client(conn, f.caller).Write([]byte(preface))
	}
	return err
}

// watch asks for a stream that lasts, on one connection. A refusal of it is an answer,
// too.
func (f *flooder) watch() error {
	stream, err := f.health.Watch(context.Background(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	return err
}

// clientHello returns how a TLS client begins.
func clientHello() ([]byte, error) {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, permissive(&tls.Config{})).Handshake() // it never gets an answer
	}()
	b := make([]byte, 16<<10)
	n, err := server.Read(b)
	return b[:n], err
}
