package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// What a link let pass ends with the link, not only what it lets in.
func TestStreamByALinkEndsWithTheLink(t *testing.T) {
	d := newDoor(t)
	port, host := d.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mute\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the gateway ends it
			return
		}
		fmt.Fprintln(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	token := d.link(port, `{"expires_seconds":3}`)
	for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: mute\r\n"} {
		t.Run("upgrade "+upgrade, func(t *testing.T) {
			t.Parallel()
			conn := d.dial()
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(hung))
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nX-Sandbox-Link: %s\r\n%s\r\n", host, token, upgrade)
			all := bufio.NewReader(conn)
			if _, err := http.ReadResponse(all, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, all); err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// Whoever comes to a public port leaves the tenant its own requests.
func TestVisitorsOfAPublicPortLeaveTheTenantItsRoom(t *testing.T) {
	d := newDoor(t)
	d.writeKeys(acmeKeys("    streams: 1\n", "a"))
	port, host := d.serve(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	d.send("a", "DELETE", "/api/v1/sandboxes/web", "")
	if made := d.send("a", "POST", "/api/v1/sandboxes", `{"id":"web","public_ports":[`+port+`]}`); made.StatusCode != 201 {
		t.Fatal(made.text)
	}
	conn := d.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	if first, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || first.StatusCode != 200 {
		t.Fatalf("a visitor: %v %v", first, err)
	}
	if second := d.ask("GET", host, "/"); second.StatusCode != 429 {
		t.Errorf("a second visitor: %d %s", second.StatusCode, second.text)
	}
	if own := d.send("a", "GET", "/api/v1/sandboxes", ""); own.StatusCode != 200 {
		t.Errorf("the tenant: %d %s", own.StatusCode, own.text)
	}
}
