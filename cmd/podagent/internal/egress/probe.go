package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// probeTime is how long a try to leave waits for an answer: what is in the cluster
	// answers within milliseconds, and a lost packet is sent again after a second.
	probeTime = 1500 * time.Millisecond
	// metadata is where clouds keep a machine's credentials.
	metadata = "169.254.169.254:80"
)

// public are addresses that answer nearly everywhere where there is an internet: those of public
// nameservers, which serve DNS over TLS, too.
var public = []string{"1.1.1.1:443", "8.8.8.8:443", "9.9.9.9:853", "[2606:4700:4700::1111]:443", "[2001:4860:4860::8888]:443"}

// ErrUnknown says that a network which leads nowhere looks like one whose targets do not
// answer.
var ErrUnknown = errors.New("only in a pod of Kubernetes, or without any network, can it be told that the network leads nowhere")

// A try is one to leave the sandbox by the network.
type try struct {
	what string
	by   func(context.Context) error
}

// LeadsNowhere tries to leave by the network: to the API server, which every pod without a policy
// reaches, to the nameservers, and to the machine's metadata; and if nothing answers there, to public
// addresses, since a policy may shut off the cluster alone. It returns nil if nothing answers at all.
// A refusal is no answer: policies refuse, too.
func LeadsNowhere(ctx context.Context) error {
	alone, err := isAlone()
	if err != nil || alone {
		return err
	}
	host := os.Getenv("KUBERNETES_SERVICE_HOST")
	if host == "" {
		return ErrUnknown
	}
	server := net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT"))
	near := []try{connecting("the API server answers at ", server), connecting("something answers at ", metadata)}
	for _, address := range nameservers() {
		near = append(near, try{"a nameserver answers at " + address, func(ctx context.Context) error { return asks(ctx, address) }})
	}
	if err := failAll(ctx, near); err != nil {
		return err
	}
	var far []try
	for _, address := range public {
		far = append(far, connecting("the internet answers at ", address))
	}
	return failAll(ctx, far)
}

// connecting is a try to connect to an address by TCP.
func connecting(what, address string) try {
	return try{what + address, func(ctx context.Context) error { return connects(ctx, address) }}
}

// failAll makes all tries at once, and returns nil if none succeeds.
func failAll(ctx context.Context, tries []try) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	results := make(chan error, len(tries))
	for _, t := range tries {
		go func() {
			if t.by(ctx) == nil {
				results <- fmt.Errorf("the network leads out of the sandbox: %s", t.what)
				return
			}
			results <- nil
		}()
	}
	for range tries {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

// isAlone reports whether the sandbox has no network but its loopback.
func isAlone() (bool, error) {
	addrs, err := net.InterfaceAddrs()
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && !ip.IP.IsLoopback() {
			return false, nil
		}
	}
	return err == nil, err
}

func connects(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	return err
}

// asks asks a nameserver for the root's nameservers, and returns nil at any answer.
func asks(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	question := dnsmessage.Question{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeNS, Class: dnsmessage.ClassINET}
	message := dnsmessage.Message{Header: dnsmessage.Header{ID: 1, RecursionDesired: true}, Questions: []dnsmessage.Question{question}}
	packet, err := message.Pack()
	if err != nil {
		return err
	}
	if _, err := conn.Write(packet); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 512))
	return err
}

// nameservers returns the addresses of the sandbox's nameservers, at most three, as resolvers
// use no more. They are those of the agent's start: commands may change the file.
var nameservers = sync.OnceValue(func() []string {
	text, _ := os.ReadFile("/etc/resolv.conf") // without one there are none
	var list []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "nameserver" && !isLoopback(fields[1]) && len(list) < 3 {
			list = append(list, net.JoinHostPort(fields[1], "53"))
		}
	}
	return list
})

func isLoopback(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.IsLoopback()
}
