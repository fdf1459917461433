package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

const job = "/api/v1/sandboxes/job-1"

// sandbox makes the sandbox job-1.
func (d *door) sandbox() {
	d.Helper()
	if made := d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`); made.StatusCode != 201 {
		d.Fatal(made.text)
	}
}

// detached starts a command, and returns the path of its process.
func (d *door) detached(body string) string {
	d.Helper()
	var started struct {
		ID string `json:"exec_id"`
	}
	got := d.send("a", "POST", job+"/exec", body)
	if err := json.Unmarshal([]byte(got.text), &started); err != nil || got.StatusCode != 202 || started.ID == "" {
		d.Fatalf("%d %s", got.StatusCode, got.text)
	}
	return "~/processes/" + started.ID
}

// eventually waits until something holds.
func (d *door) eventually(what string, holds func() bool) {
	d.Helper()
	for begun := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > hung {
			d.Fatalf("%s: not after %v", what, hung)
		}
	}
}

// random returns bytes, the same ones for a seed.
func random(seed uint64, n int) string {
	data := make([]byte, n)
	r := rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, seed)))
	_, _ = r.Read(data)
	return string(data)
}

func TestInputComesInPartsByOffset(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	p := d.detached(`{"args":["cat"],"open_stdin":true,"detach":true}`)
	d.walk(
		step{"GET", p + "/stdin", "", nil, 200, `^{"offset":0,"open":true}\n$`},
		step{"PUT", p + "/stdin?offset=0", "hello", nil, 200, `^{"offset":5,"open":true}\n$`},
		step{"PUT", p + "/stdin?offset=0", "hello", nil, 200, `^{"offset":5,"open":true}\n$`},
		step{"PUT", p + "/stdin?offset=3", "lo wo", nil, 200, `^{"offset":8,"open":true}\n$`},
		step{"PUT", p + "/stdin?offset=9", "gap", nil, 409, `"class":"stdin_gap","offset":8}`},
		step{"PUT", p + "/stdin", "rl", nil, 200, `^{"offset":10,"open":true}\n$`},
		step{"PUT", p + "/stdin?offset=2&end=true", "l", nil, 409, `"class":"conflict","offset":10}`},
		step{"PUT", p + "/stdin?offset=10&end=true", "d", nil, 200, `^{"offset":11,"open":false}\n$`},
		step{"PUT", p + "/stdin?offset=10&end=true", "d", nil, 200, `^{"offset":11,"open":false}\n$`},
		step{"PUT", p + "/stdin?offset=11", "more", nil, 409, `"class":"stdin_closed","offset":11}`},
		step{"GET", p + "/output?follow=true", "", nil, 200, `^({"type":"stdout",.*\n)+{"type":"exit","exit":.*"code":0`},
		step{"GET", p + "/stdin", "", nil, 200, `^{"offset":11,"open":false}\n$`},
	)
	if out := d.send("a", "GET", strings.Replace(p, "~", job, 1)+"/output", ""); !strings.Contains(out.text, `"offset":0,"data":"hello world"`) {
		t.Errorf("the command read %s", out.text)
	}
}

func TestInputThatCannotBeIsRefused(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	p := d.detached(`{"args":["sleep","300"],"detach":true}`)
	q := d.detached(`{"script":"read -r line; exec 0<&-; exec sleep 300","open_stdin":true,"detach":true}`)
	d.walk(
		step{"GET", p + "/stdin", "", nil, 200, `"open":false`},
		step{"PUT", p + "/stdin?offset=0", "x", nil, 409, `"class":"stdin_closed","offset":0}`},
		step{"PUT", q + "/stdin?offset=0", "line\n", nil, 200, `"offset":5`},
		step{"PUT", q + "/stdin?offset=-1", "x", nil, 422, `offset`},
		step{"PUT", q + "/stdin?offset=9223372036854775807", "x", nil, 422, `offset`},
		step{"PUT", q + "/stdin?offset=5&end=perhaps", "x", nil, 422, `end`},
		step{"PUT", q + "/stdin?offset=5", strings.Repeat("x", 1<<20+1), nil, 413, `1048576`},
		step{"PUT", "~/processes/none/stdin?offset=0", "x", nil, 404, `"class":"not_exist"`},
		step{"GET", "~/processes/none/stdin", "", nil, 404, `"class":"not_exist"`},
		step{"POST", "~/exec", `{"args":["cat"],"detach":true,"stdin":"eA=="}`, nil, 422, `open_stdin`},
	)
	d.eventually("its end of the input is closed", func() bool {
		return d.send("a", "PUT", strings.Replace(q, "~", job, 1)+"/stdin", "x").StatusCode == 409
	})
	d.walk(
		step{"POST", p + "/signal", `{"signal":9}`, nil, 204, ``},
		step{"POST", q + "/signal", `{"signal":9}`, nil, 204, ``},
	)
	for _, path := range []string{p, q} {
		path = strings.Replace(path, "~", job, 1)
		for method, token := range map[string]string{"GET": "o", "PUT": "o"} {
			if got := d.send(token, method, path+"/stdin", ""); got.StatusCode != 404 || strings.Contains(got.text, "offset") {
				t.Errorf("%s of another tenant: %d %s", method, got.StatusCode, got.text)
			}
		}
	}
}

func TestInputThatBrokeOffIsResumedExactly(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	p := strings.Replace(d.detached(`{"script":"until [ -e go ]; do sleep 0.01; done; exec cat > got","open_stdin":true,"detach":true}`), "~", job, 1)
	data := random(1, 3<<20) // more than any pipe holds
	taken := func() (n int) {
		var now struct{ Offset int }
		if err := json.Unmarshal([]byte(d.send("a", "GET", p+"/stdin", "").text), &now); err != nil {
			t.Fatal(err)
		}
		return now.Offset
	}
	put := func(ctx context.Context, from int) error {
		for part := 1 << 20; from < len(data); from += part {
			part = min(part, len(data)-from)
			path := fmt.Sprintf("%s%s/stdin?offset=%d&end=%t", d.url, p, from, from+part == len(data))
			req, err := http.NewRequestWithContext(ctx, "PUT", path, strings.NewReader(data[from:from+part]))
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer a")
			r, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			r.Body.Close()
			if r.StatusCode != 200 {
				return errors.New(r.Status)
			}
		}
		return nil
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- put(ctx, 0) }()
	d.eventually("some input is taken", func() bool { return taken() > 0 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("the first caller: %v", err)
	}
	n := taken()
	d.walk(step{"PUT", "~/files?path=go", "", nil, 201, ``})
	if err := put(t.Context(), n-10); err != nil {
		t.Errorf("the rest from offset %d: %v", n-10, err)
	}
	d.walk(step{"GET", strings.Replace(p, job, "~", 1) + "/output?follow=true", "", nil, 200, `"code":0`})
	if got := d.send("a", "GET", job+"/files?path=got", ""); got.text != data {
		t.Errorf("the command got %d bytes, and not the %d that were sent", len(got.text), len(data))
	}
}

func TestRepeatedDetachedExecRunsOnce(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	key := "Idempotency-Key: " + uuid.Must(uuid.NewV7()).String()
	const body = `{"script":"echo x >> ran; exec cat","open_stdin":true,"detach":true}`
	first := d.send("a", "POST", job+"/exec", body, key)
	if first.StatusCode != 202 {
		t.Fatal(first.text)
	}
	if again := d.send("a", "POST", job+"/exec", body, key); again.StatusCode != 202 || again.text != first.text {
		t.Errorf("repeated: %d %s after %s", again.StatusCode, again.text, first.text)
	}
	var started struct {
		ID string `json:"exec_id"`
	}
	if err := json.Unmarshal([]byte(first.text), &started); err != nil {
		t.Fatal(err)
	}
	d.walk(
		step{"PUT", "~/processes/" + started.ID + "/stdin?offset=0&end=true", "", nil, 200, `"open":false`},
		step{"GET", "~/processes/" + started.ID + "/output?follow=true", "", nil, 200, `"code":0`},
		step{"GET", "~/files?path=ran", "", nil, 200, `^x\n$`},
	)
}
