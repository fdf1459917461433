// Intruder tries all ways to call the agent of a sandbox without its caller's key,
// from inside the pod or from another one. It prints the result of each as a line
// of JSON.
//
//	intruder inside          try all ways that there are in the agent's pod
//	intruder outside POD-IP  try those that there are in another
//	intruder search          search the agent's memory and files for keys
//	intruder invited         call with the identity that standard input has
//	intruder listen PORT     accept connections, to show that they can be made
//	intruder squat           take the agent's port on the other loopback
//	intruder flood KIND NUMBER POD-IP
//	                         open that many of something in another pod, if need be with
//	                         the identity that standard input has
//
// INTRUDER_KEY is the public key that the agent accepts, INTRUDER_URLS the URLs in
// the cluster to request, and INTRUDER_PORT a port of the other pod that accepts
// connections.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	agentPort = "7463"
	agent     = "127.0.0.1:" + agentPort
	health    = "@podagent-health"

	// patience bounds each attempt. Anything that answers does so at once.
	patience = 10 * time.Second
)

// report is the result of one way.
type report struct{ Way, Got string }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "intruder:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch args[0] {
	case "inside":
		return inside()
	case "outside":
		return outside(args[1])
	case "search":
		return search()
	case "invited":
		return invited()
	case "listen":
		return listen("0.0.0.0:" + args[1])
	case "squat":
		return listen("[::1]:" + agentPort)
	case "flood":
		number, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return flood(args[1], number, net.JoinHostPort(args[3], agentPort))
	}
	return fmt.Errorf("unknown mode %q", args[0])
}

// try reports the result of a way.
func try(way string, do func(ctx context.Context) string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	line, err := json.Marshal(report{way, do(ctx)})
	if err != nil {
		panic(err) // two strings are always valid JSON
	}
	fmt.Println(string(line))
}

// inside tries all ways in the agent's pod.
func inside() error {
	key, err := authorizedKey()
	if err != nil {
		return err
	}
	try("plaintext", func(ctx context.Context) string { return call(ctx, plain(agent)) })
	found := tryMemory(key)
	tryCertificates(agent, key, found)
	tryOldVersions(agent)
	tryOwnAddresses()
	tryHealth()
	tryFiles(key)
	trySquatting()
	tryProcess()
	tryCluster()
	tryOverwriting(key) // last, because afterwards the agent may be unreachable
	return nil
}

// search looks for keys in all that the agent has. It calls nobody but to learn whose
// memory it is.
func search() error {
	key, err := authorizedKey()
	if err != nil {
		return err
	}
	tryMemory(key)
	tryFiles(key)
	return nil
}

// outside tries all ways from another pod.
func outside(ip string) error {
	key, err := authorizedKey()
	if err != nil {
		return err
	}
	address := net.JoinHostPort(ip, agentPort)
	try("plaintext", func(ctx context.Context) string { return call(ctx, plain(address)) })
	tryCertificates(address, key, nil)
	tryOldVersions(address)
	try("another port", func(ctx context.Context) string {
		conn, err := plain(net.JoinHostPort(ip, os.Getenv("INTRUDER_PORT")))(ctx)
		if err != nil {
			return err.Error()
		}
		conn.Close()
		return "connected"
	})
	tryCluster()
	return nil
}

// listen accepts connections until it is killed.
func listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		return nil
	}
	fmt.Println("listening")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		conn.Close()
	}
}
