package e2b

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/test/contracts"
)

func TestInputIsTaken(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "commands.sendStdin", "commands.closeStdin")
	b := newBox(t)
	in := func(pid int, kind, data string) (int, string) {
		return b.call("SendInput", fmt.Sprintf(`{"process":{"pid":%d},"input":{%q:%q}}`, pid, kind, base64.StdEncoding.EncodeToString([]byte(data))))
	}
	for name, open := range map[string]string{"asked for": `,"stdin":true`, "of an old client": ``} {
		s := b.start(`{"process":{"cmd":"cat"}` + open + `}`)
		for _, part := range []string{"one\n", "", "two\n"} {
			if code, body := in(s.pid, "stdin", part); code != 200 {
				t.Fatalf("%s: %d %s", name, code, body)
			}
		}
		s.until("two\n")
		if code, body := in(s.pid, "pty", "x"); code != 400 {
			t.Errorf("input of a terminal: %d %s", code, body)
		}
		for range 2 {
			if code, body := b.call("CloseStdin", of(s.pid)); code != 200 && code != 404 {
				t.Errorf("%s: %d %s", name, code, body)
			}
		}
		if got := s.rest(); got.end == nil || got.end.ExitCode != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if code, body := in(s.pid, "stdin", "x"); code != 404 {
			t.Errorf("after its end: %d %s", code, body)
		}
	}
	without := b.start(script(lasts))
	if code, body := in(without.pid, "stdin", "x"); code != 400 || !strings.Contains(body, `"code":"failed_precondition"`) {
		t.Errorf("without input: %d %s", code, body)
	}
	closes := b.start(`{"process":{"cmd":"sh","args":["-c","exec 0<&-; echo one; exec sleep 300"]},"stdin":true}`)
	closes.until("one")
	b.eventually("the closed input is known", func() bool {
		code, body := in(closes.pid, "stdin", "x")
		return code == 400 && strings.Contains(body, `"code":"failed_precondition"`)
	})
	for body, code := range map[string]int{
		`{"process":{"pid":99999999},"input":{"stdin":""}}`:         404,
		`{"process":{"pid":1},"input":{}}`:                          400,
		`{"process":{"pid":1}}`:                                     400,
		`{"process":{"pid":1},"input":{"stdin":"","pty":""}}`:       400,
		`{"process":{"pid":1},"input":{"stdin":"not base64"}}`:      400,
		`{"input":{"stdin":"eA=="}}`:                                400,
		`{"process":{"pid":-1},"input":{"stdin":"eA=="}}`:           404,
		`{"process":{"pid":1e99},"input":{"stdin":"eA=="}}`:         400,
		`{"process":{"tag":"none"},"input":{"stdin":"eA==","a":1}}`: 404,
	} {
		if got, text := b.call("SendInput", body); got != code {
			t.Errorf("%s: %d %s", body, got, text)
		}
	}
}

func TestInputOfManyAtOnceIsTakenWhole(t *testing.T) {
	b := newBox(t)
	s := b.start(`{"process":{"cmd":"cat"},"stdin":true}`)
	const callers = 20
	line := func(i int) string { return fmt.Sprintf("%02d%s\n", i, strings.Repeat("x", 3000)) }
	var sent sync.WaitGroup
	for i := range callers {
		sent.Go(func() {
			data := base64.StdEncoding.EncodeToString([]byte(line(i)))
			if code, body := b.call("SendInput", fmt.Sprintf(`{"process":{"pid":%d},"input":{"stdin":%q}}`, s.pid, data)); code != 200 {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	sent.Wait()
	if code, body := b.call("CloseStdin", of(s.pid)); code != 200 {
		t.Fatal(code, body)
	}
	got := s.rest().stdout
	for i := range callers {
		if strings.Count(got, line(i)) != 1 {
			t.Errorf("the line of caller %d is there %d times", i, strings.Count(got, line(i)))
		}
	}
	if len(got) != callers*len(line(0)) {
		t.Errorf("there are %d bytes", len(got))
	}
}

func TestInputComesByAStream(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "commands.sendStdin")
	b := newBox(t)
	streamed := func(messages ...string) string {
		var body string
		for _, m := range messages {
			body += envelope(0, m)
		}
		_, text := b.send("POST", "/process.Process/StreamInput", body, b.headers(streamType)...)
		return text
	}
	s := b.start(`{"process":{"cmd":"cat"},"stdin":true}`)
	start := fmt.Sprintf(`{"start":{"process":{"pid":%d}}}`, s.pid)
	got := streamed(start, `{"data":{"input":{"stdin":"b25l"}}}`, `{"keepalive":{}}`, `{"data":{"input":{"stdin":"dHdv"}}}`)
	if want := envelope(0, `{}`) + envelope(2, `{}`); got != want {
		t.Errorf("the answer is %q", got)
	}
	s.until("two")
	for want, messages := range map[string][]string{
		`"code":"invalid_argument"`: {`{"data":{"input":{"stdin":"b25l"}}}`},
		`must be of stdin`:          {start, `{"data":{}}`},
		`is pty, and that`:          {start, `{"data":{"input":{"pty":"eA=="}}}`},
		`"code":"invalid_argument","message":"unmarshal message`: {start, `{"data":7}`},
		`first message`:      nil,
		`"code":"not_found"`: {`{"start":{"process":{"pid":99999999}}}`},
	} {
		if got := streamed(messages...); !strings.Contains(got, want) {
			t.Errorf("%v: %q", messages, got)
		}
	}
}

func TestStreamOfInputLeavesTurnsToOthers(t *testing.T) {
	b := newBox(t)
	s := b.start(`{"process":{"cmd":"cat"},"stdin":true}`)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	body, messages := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, "POST", b.url+"/process.Process/StreamInput", body)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range b.headers(streamType) {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	var sent sync.WaitGroup
	sent.Go(func() {
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = got.Body.Close()
	})
	say := func(message string) { _, _ = io.WriteString(messages, envelope(0, message)) }
	say(fmt.Sprintf(`{"start":{"process":{"pid":%d}}}`, s.pid))
	say(`{"data":{"input":{"stdin":"b25l"}}}`)
	s.until("one")
	other := b.request(ctx, "POST", "/process.Process/SendInput", fmt.Sprintf(`{"process":{"pid":%d},"input":{"stdin":"dHdv"}}`, s.pid), b.headers(unaryType)...)
	if _ = other.Body.Close(); other.StatusCode != 200 {
		t.Errorf("another's input: %d", other.StatusCode)
	}
	s.until("two")
	say(`{"data":{"input":{"stdin":"b25l"}}}`)
	s.until("one")
	_ = messages.Close()
	sent.Wait()
}

func TestTerminalTakesInputAndSizes(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "pty.create, pty.sendInput, pty.resize, pty.kill", "pty.connect")
	b := newBox(t)
	s := b.start(`{"process":{"cmd":"/bin/bash","args":["-i","-l"],"envs":{"TERM":"xterm-256color"}},"pty":{"size":{"cols":100,"rows":30}}}`)
	in := func(data string) {
		t.Helper()
		body := fmt.Sprintf(`{"process":{"pid":%d},"input":{"pty":%q}}`, s.pid, base64.StdEncoding.EncodeToString([]byte(data)))
		if code, text := b.call("SendInput", body); code != 200 {
			t.Fatal(code, text)
		}
	}
	in("stty size; echo $TERM\n")
	s.until("30 100")
	s.until("xterm-256color")
	if code, body := b.call("Update", fmt.Sprintf(`{"process":{"pid":%d},"pty":{"size":{"cols":81,"rows":25}}}`, s.pid)); code != 200 {
		t.Fatal(code, body)
	}
	in("stty size | tr ' ' x\n")
	s.until("25x81")
	s.leave()
	again := b.open("Connect", of(s.pid)).started()
	again.until("30 100")
	again.until("25x81")
	in("exit 5\n")
	if got := again.rest(); got.end == nil || got.end.ExitCode != 5 || got.stdout != "" {
		t.Errorf("%+v", got.end)
	}
	if code, body := b.call("Update", fmt.Sprintf(`{"process":{"pid":%d},"pty":{"size":{"cols":81,"rows":25}}}`, s.pid)); code != 404 {
		t.Errorf("after its end: %d %s", code, body)
	}
	plain := b.start(script(lasts))
	for body, code := range map[string]int{
		fmt.Sprintf(`{"process":{"pid":%d},"pty":{"size":{"cols":81,"rows":25}}}`, plain.pid):    400,
		fmt.Sprintf(`{"process":{"pid":%d},"pty":{"size":{"cols":-1,"rows":25}}}`, plain.pid):    400,
		fmt.Sprintf(`{"process":{"pid":%d},"pty":{"size":{"cols":70000,"rows":25}}}`, plain.pid): 400,
		fmt.Sprintf(`{"process":{"pid":%d},"pty":{}}`, plain.pid):                                400,
		fmt.Sprintf(`{"process":{"pid":%d}}`, plain.pid):                                         400,
		`{"pty":{"size":{"cols":81,"rows":25}}}`:                                                 400,
	} {
		if got, text := b.call("Update", body); got != code {
			t.Errorf("%s: %d %s", body, got, text)
		}
	}
}
