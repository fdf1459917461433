package egress_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// hung bounds what would otherwise hang.
const hung = 30 * time.Second

// A host that neither reads nor sends notices nothing of the end of a program, and nothing of the host
// tells the far end. The connection of such a program ends all the same, however it is carried.
func TestConnectionOfAProgramThatIsGoneGivesItsPlaceBack(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	over, reached := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over) })
	allowed, port := host(t, func(*net.TCPConn) {
		reached <- struct{}{}
		<-over
	})
	server := serve(t, sandbox, egress.Options{Policy: allowed})
	info, err := sandbox.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("allowed.test:%d", port)
	for what, words := range map[string]string{
		"CONNECT":    "CONNECT " + at + " HTTP/1.1\r\nHost: x\r\n\r\nwords",
		"plain HTTP": "POST http://" + at + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nwords",
		"SOCKS5":     "\x05\x01\x00\x05\x01\x00\x03\x0callowed.test" + string([]byte{byte(port >> 8), byte(port)}) + "words",
	} {
		for ending, end := range map[string]func(*net.TCPConn){
			"its end": func(c *net.TCPConn) { _ = c.CloseWrite() },
			"nothing": func(*net.TCPConn) {},
		} {
			t.Run(what+" and "+ending, func(t *testing.T) {
				program, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", info.Egress.Port))
				if err != nil {
					t.Fatal(err)
				}
				defer program.Close()
				if _, err := io.WriteString(program, words); err != nil {
					t.Fatal(err)
				}
				<-reached
				end(program.(*net.TCPConn))
				_ = program.(*net.TCPConn).SetLinger(0)
				program.Close()
				for deadline := time.Now().Add(hung); server.Connections() > 0; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("the connection keeps its place")
					}
				}
			})
		}
	}
}
