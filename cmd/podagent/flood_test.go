package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/podagent/podagent/pkg/podapi"
)

// floods are what the program flood can do, often. Each function opens a connection or a
// stream, and leaves it open.
var floods = map[string]func(target) error{
	"half-open handshakes": func(t target) error { return t.leave(t.hello) },
	"idle connections":     target.call,
	"health connections":   func(t target) error { return t.leave([]byte(preface)) },
	"health streams":       target.watch,
}

// preface is how an HTTP/2 client begins: with settings that are empty.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// floodWidth is how many connections a flood opens at once.
const floodWidth = 64

// target is what a flood is directed at.
type target struct {
	network, address string
	local            net.Addr
	hello            []byte      // of a TLS handshake
	caller           *tls.Config // nil without a key
	watchers         []healthpb.HealthClient
	held             *holding
}

// holding has the newest connections of a flood, which stay open.
type holding struct {
	mu    sync.Mutex
	conns []net.Conn
	next  int // the place of the next one
}

func (h *holding) add(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.conns[h.next]; old != nil {
		old.Close()
	}
	h.conns[h.next] = c
	h.next = (h.next + 1) % len(h.conns)
}

// flood is a program that floods an agent: flood KIND NUMBER NETWORK ADDRESS [FROM]. It
// prints a line when it has opened that many, and opens others in their place until
// standard input ends. The variable PODAGENT_TEST_IDENTITY has the key of a caller.
func flood() {
	kind, network, address := os.Args[1], os.Args[3], os.Args[4]
	number, err := strconv.Atoi(os.Args[2])
	must(err)
	t := target{network: network, address: address, hello: clientHello(), held: &holding{conns: make([]net.Conn, number)}}
	if len(os.Args) > 5 {
		t.local = &net.TCPAddr{IP: net.ParseIP(os.Args[5])}
	}
	if text := os.Getenv("PODAGENT_TEST_IDENTITY"); text != "" {
		identity, err := podapi.ParseIdentity([]byte(text))
		must(err)
		t.caller, err = identity.ClientTLS("")
		must(err)
		t.caller.CurvePreferences = []tls.CurveID{tls.X25519} // the cheapest
	}
	for range 2 {
		conn, err := grpc.NewClient("passthrough:///health", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return t.dial() }))
		must(err)
		t.watchers = append(t.watchers, healthpb.NewHealthClient(conn))
	}
	fmt.Printf("opened %d of them\n", t.flood(floods[kind], number))
	go func() {
		for {
			t.flood(floods[kind], number)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// flood returns how often open succeeded.
func (t target) flood(open func(target) error, number int) (opened int) {
	results, free := make(chan error, number), make(chan struct{}, floodWidth)
	for range number {
		free <- struct{}{}
		go func() {
			results <- open(t)
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

func (t target) dial() (net.Conn, error) {
	d := net.Dialer{LocalAddr: t.local, Timeout: hung}
	c, err := d.Dial(t.network, t.address)
	if err != nil {
		return nil, err
	}
	t.held.add(c)
	return c, nil
}

// leave connects and sends the beginning of something.
func (t target) leave(beginning []byte) error {
	c, err := t.dial()
	if err == nil {
		_, err = c.Write(beginning)
	}
	return err
}

// call connects with the key, and makes no call.
func (t target) call() error {
	c, err := t.dial()
	if err != nil {
		return err
	}
	_, err = tls.Client(c, t.caller).Write([]byte(preface))
	return err
}

// watch opens a stream that lasts, on one of few connections.
func (t target) watch() error {
	stream, err := t.watchers[time.Now().UnixNano()%2].Watch(context.Background(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// clientHello returns how a TLS client begins.
func clientHello() []byte {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake()
	}()
	b := make([]byte, 16<<10)
	n, err := server.Read(b)
	must(err)
	return b[:n]
}
