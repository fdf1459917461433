package gateway_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/podagent/podagent/pkg/gateway"
)

const terminalProtocol = "podagent.terminal.v1"

// console is the caller's side of a terminal.
type console struct {
	*door
	conn  *websocket.Conn
	first gateway.TerminalEvent // start
	sent  int64                 // the offset of the input that comes next
	taken int64                 // as far as the gateway said
	at    int64                 // the offset of the output that comes next; -1 before the first
	out   []byte                // the output so far
	last  gateway.TerminalEvent // exit or error
}

func dialer(protocols ...string) *websocket.Dialer {
	return &websocket.Dialer{Subprotocols: protocols}
}

// console opens a terminal of job-1 as the tenant acme.
func (d *door) console(query string, headers ...string) *console {
	d.Helper()
	header := http.Header{"Authorization": {"Bearer a"}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		header.Set(name, value)
	}
	conn, answer, err := dialer(terminalProtocol).DialContext(d.Context(), "ws"+strings.TrimPrefix(d.url, "http")+job+"/terminal?"+query, header)
	if err != nil {
		var text [1000]byte
		n := 0
		if answer != nil {
			n, _ = answer.Body.Read(text[:])
		}
		d.Fatalf("terminal?%s: %v: %s", query, err, text[:n])
	}
	d.Cleanup(func() { conn.Close() })
	c := &console{door: d, conn: conn, at: -1}
	if err := c.step(); err != nil || c.first.Type != "start" {
		d.Fatalf("it began with %+v: %v", c.first, err)
	}
	c.sent = *c.first.StdinOffset
	return c
}

// step takes one frame, or returns how the connection ended.
func (c *console) step() error {
	c.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(hung)); err != nil {
		c.Fatal(err)
	}
	kind, frame, err := c.conn.ReadMessage()
	switch {
	case err != nil:
		return err
	case kind == websocket.BinaryMessage:
		offset := int64(binary.BigEndian.Uint64(frame))
		if c.at >= 0 && offset != c.at {
			c.Fatalf("output of offset %d in place of %d", offset, c.at)
		}
		c.out = append(c.out, frame[8:]...)
		c.at = offset + int64(len(frame)-8)
		return nil
	}
	var e gateway.TerminalEvent
	if err := json.Unmarshal(frame, &e); err != nil {
		c.Fatalf("%s: %v", frame, err)
	}
	switch e.Type {
	case "start":
		c.first = e
	case "ack":
		c.taken = *e.StdinOffset
	default:
		c.last = e
	}
	return nil
}

// until reads until the output ends with text, and forgets it.
func (c *console) until(text string) string {
	c.Helper()
	for !bytes.HasSuffix(c.out, []byte(text)) {
		if err := c.step(); err != nil {
			c.Fatalf("%q did not come after %q: %v", text, c.out, err)
		}
	}
	out := string(c.out)
	c.out = nil
	return out
}

// frame sends a frame with input at an offset.
func (c *console) frame(offset int64, text string) {
	c.Helper()
	if err := c.conn.WriteMessage(websocket.BinaryMessage, append(binary.BigEndian.AppendUint64(nil, uint64(offset)), text...)); err != nil {
		c.Fatal(err)
	}
}

// types sends the next input.
func (c *console) types(text string) {
	c.Helper()
	c.frame(c.sent, text)
	c.sent += int64(len(text))
}

func (c *console) asks(text string) {
	c.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.Fatal(err)
	}
}

// ends reads to the end, which must have a code.
func (c *console) ends(code int) {
	c.Helper()
	err := c.step()
	for err == nil {
		err = c.step()
	}
	if !websocket.IsCloseError(err, code) {
		c.Errorf("it ended with %v and %+v, want %d", err, c.last, code)
	}
}

// exits reads to the end of the command, which must have an exit code.
func (c *console) exits(code int) {
	c.Helper()
	c.ends(websocket.CloseNormalClosure)
	if c.last.Exit == nil || c.last.Exit.Code != code {
		c.Errorf("the last event is %+v, want exit code %d", c.last, code)
	}
}

// cut breaks the connection off.
func (c *console) cut() { c.conn.NetConn().Close() }

func script(text string) string { return "script=" + url.QueryEscape(text) }

// drawer says the sizes of its terminal, and what it reads, until it reads "end". A trap has to
// wait for read to return, which may happen within a line.
const drawer = `stty -echo; trap 'stty size' WINCH; stty size; seq 1000; printf '\033[2Jdrawn\n'
while :; do
	if ! read -r -t 0.1 line; then part=$part$line; continue; fi
	line=$part$line part=
	[ "$line" = end ] && exit 6
	echo "got $line"
done`

func TestTerminalCarriesBytesAndSizes(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.console("rows=30&cols=100&" + script(drawer))
	if out := c.until("drawn\r\n"); !strings.HasPrefix(out, "30 100\r\n1\r\n2\r\n") {
		t.Errorf("the output begins with %.20q", out)
	}
	c.asks(`{"type":"resize","rows":31,"cols":101}`)
	c.until("31 101\r\n")
	c.types("é")
	c.types("\n")
	c.until("got é\r\n")
	for c.taken < c.sent {
		if err := c.step(); err != nil {
			t.Fatal(err)
		}
	}
	c.types("end\n")
	c.exits(6)
}

func TestTerminalWithoutACommandIsAShell(t *testing.T) {
	d := newDoor(t, func(o *gateway.Options) { o.Base.Env = []string{"HOME=" + t.TempDir()} }) // without a user's own files for shells
	d.sandbox()
	c := d.console("env=A%3Dfirst&env=B%3Dsecond")
	c.types("stty -echo; echo \"$A and $B\"; exit 3\r")
	c.exits(3)
	if !strings.Contains(string(c.out), "first and second\r\n") {
		t.Errorf("it said %q", c.out)
	}
	c = d.console("args=printf&args=%25s-%25s&args=a+b&args=%FF")
	c.exits(0)
	if string(c.out) != "a b-\xff" {
		t.Errorf("it said %q", c.out)
	}
}

func TestInterruptIsAKey(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.console(script(`trap 'exit 3' INT; echo ready; while :; do sleep 0.01; done`))
	c.until("ready\r\n")
	c.types("\x03")
	c.exits(3)
	c = d.console(script(`trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done`))
	c.until("ready\r\n")
	c.asks(`{"type":"signal","signal":15}`)
	c.exits(4)
	c = d.console(script(`echo ready; cat; exit 5`))
	c.until("ready\r\n")
	c.asks(`{"type":"end"}`)
	c.exits(5)
}

func TestTerminalIsAttachedToAgainWithItsScreen(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.console(script(drawer))
	c.until("drawn\r\n")
	c.cut()
	again := d.console("rows=25&cols=81&exec_id=" + c.first.ExecID)
	if out := again.until("25 81\r\n"); !strings.Contains(out, "drawn") || strings.Contains(out, "1000\r\n") {
		t.Errorf("the screen is %q", out)
	}
	again.types("once\n")
	again.until("got once\r\n")
	at := again.at
	again.types("twice\n")
	again.until("got twice\r\n")
	again.cut()
	third := d.console(fmt.Sprintf("rows=26&cols=82&stdout_offset=%d&exec_id=%s", at, c.first.ExecID))
	if out := third.until("26 82\r\n"); out != "got twice\r\n26 82\r\n" {
		t.Errorf("from offset %d: %q", at, out)
	}
	third.types("end\n")
	third.exits(6)
}

func TestInputOfATerminalIsResumedExactlyAcrossCuts(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	const size = 300_000
	c := d.console(script(fmt.Sprintf("stty raw -echo; echo ready; head -c %d > got", size)))
	c.until("ready\n")
	data := random(2, size)
	r := rand.New(rand.NewPCG(1, 2))
	send := func(from, to int) {
		for from < to {
			n := min(1+r.IntN(5000), to-from)
			c.frame(int64(from), data[from:from+n])
			from += n
		}
	}
	next := 0
	for range 10 {
		send(max(0, next-r.IntN(100)), min(size, next+20_000)) // an overlap
		if r.IntN(2) == 0 {
			_ = c.step() // an ack
		}
		c.cut()
		c = d.console("exec_id=" + c.first.ExecID)
		if n := int(c.sent); n < next || n > size {
			t.Fatalf("%d bytes were taken, and %d before", n, next)
		}
		next = int(c.sent)
	}
	if next == 0 {
		t.Error("nothing was taken across the cuts")
	}
	send(next, size)
	c.exits(0)
	if got := d.send("a", "GET", job+"/files?path=got", ""); got.text != data {
		t.Errorf("%d bytes arrived, and not the %d that were sent", len(got.text), size)
	}
}

func TestFramesThatAreRefusedEndTheConnectionAlone(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.console(script(drawer))
	c.until("drawn\r\n")
	id := "exec_id=" + c.first.ExecID
	c.types("a\n")
	c.until("got a\r\n")
	c.frame(3, "gap")
	c.ends(4409)
	if p := c.last.Problem; p == nil || p.Class != "stdin_gap" || p.Offset == nil || *p.Offset != 2 {
		t.Errorf("after a gap: %+v", c.last.Problem)
	}
	for _, test := range []struct {
		code int
		kind int
		text string
	}{
		{4422, websocket.BinaryMessage, ""},
		{4422, websocket.BinaryMessage, "1234567"},
		{4409, websocket.BinaryMessage, "\xff\xff\xff\xff\xff\xff\xff\xffx"},
		{4422, websocket.TextMessage, ""},
		{4422, websocket.TextMessage, "{"},
		{4422, websocket.TextMessage, `{"type":"start"}`},
		{4422, websocket.TextMessage, `{"type":"resize","rows":-1}`},
		{4422, websocket.TextMessage, `{"type":"signal","signal":1000}`},
		{4422, websocket.TextMessage, `{"type":"` + strings.Repeat("x", 5000) + `"}`},
	} {
		c := d.console(id)
		if err := c.conn.WriteMessage(test.kind, []byte(test.text)); err != nil {
			t.Fatal(err)
		}
		c.ends(test.code)
		if p := c.last.Problem; test.code > 4000 && (p == nil || p.Status+4000 != test.code || p.Class == "" || p.Detail == "") {
			t.Errorf("%q: the problem is %+v", test.text, p)
		}
	}
	c = d.console(id)
	c.types("b\n")
	c.until("got b\r\n")
	c.frame(c.sent, strings.Repeat("x", 64<<10+1))
	c.ends(1009)
	c = d.console(id) // what fitted of the large frame may still be on its way, and nobody knows its end
	c.asks(`{"type":"signal","signal":9}`)
	c.exits(128 + 9)
}

func TestGarbageDisturbsNoTerminal(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	c := d.console(script(`stty raw -echo; echo ready; exec cat > /dev/null`))
	c.until("ready\n")
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		g := d.console("exec_id=" + c.first.ExecID)
		data := []byte(random(r.Uint64(), r.IntN(300)))
		switch r.IntN(4) {
		case 0:
			_ = g.conn.WriteMessage(websocket.BinaryMessage, data)
		case 1:
			_ = g.conn.WriteMessage(websocket.TextMessage, data)
		case 2:
			_ = g.conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"resize","rows":%d,"cols":%d}`, r.Int64(), r.Int64()))
		default:
			_, _ = g.conn.NetConn().Write(data)
		}
		if r.IntN(2) == 0 {
			g.cut()
			continue
		}
		_ = g.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(hung))
		_ = g.conn.NetConn().(interface{ CloseWrite() error }).CloseWrite()
		for g.step() == nil {
		}
	}
	end := d.console("exec_id=" + c.first.ExecID)
	end.asks(`{"type":"signal","signal":9}`)
	end.exits(137)
}
