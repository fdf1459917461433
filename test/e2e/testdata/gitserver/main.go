// Command gitserver serves the git repositories below a directory over HTTP, with a
// name and a password: gitserver DIR NAME PASSWORD. It listens on all addresses,
// prints its port, and serves until it is killed.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/podagent/podagent/internal/gittest"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: gitserver DIR NAME PASSWORD")
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func serve(dir, name, password string) error {
	backend, err := gittest.Backend(dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, p, _ := r.BasicAuth(); n != name || p != password {
			w.Header().Set("Content-Type", "text/plain")
			http.Error(w, "I got "+r.Header.Get("Authorization"), http.StatusForbidden)
			return
		}
		backend.ServeHTTP(w, r)
	}))
}
