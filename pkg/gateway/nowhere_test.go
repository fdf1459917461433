package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Go's server passes the preface of HTTP/2 on as a request for *, where it does not speak HTTP/2.
func TestRequestForNoPathIsForNoOperation(t *testing.T) {
	server := httptest.NewServer(newDoor(t).gateway)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 404 || !strings.Contains(string(text), `"class":"not_exist"`) {
		t.Errorf("%d %s: %v", r.StatusCode, text, err)
	}
}
