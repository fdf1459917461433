package gateway_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
)

const inLines = "Accept: application/jsonl"

// awaitSilence reads empty lines.
func awaitSilence(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	for range 3 {
		if !lines.Scan() || lines.Text() != "" {
			t.Fatalf("in place of an empty line: %q, %v", lines.Text(), lines.Err())
		}
	}
}

// said returns the next line that says something.
func said(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		if lines.Text() != "" {
			return lines.Text()
		}
	}
	t.Fatalf("cut off: %v", lines.Err())
	return ""
}

func TestSilentCommandKeepsItsAnswerOpen(t *testing.T) {
	d := newDoor(t)
	gateway.SetSilence(d.gateway, 10*time.Millisecond)
	d.sandbox()
	ran := bufio.NewScanner(d.begin("POST", job+"/exec", `{"script":"read x; echo $x","open_stdin":true}`, inLines).Body)
	id := quoted(said(t, ran), `"exec_id":"`)
	awaitSilence(t, ran)
	read := bufio.NewScanner(d.begin("GET", job+"/processes/"+id+"/output?follow=true", "").Body)
	awaitSilence(t, read)
	d.walk(step{"PUT", job + "/processes/" + id + "/stdin?offset=0", "hi\n", nil, http.StatusOK, ""})
	for name, lines := range map[string]*bufio.Scanner{"exec": ran, "read-output": read} {
		if line := said(t, lines); !strings.Contains(line, `"data":"hi\n"`) {
			t.Errorf("%s: %s", name, line)
		}
		if line := said(t, lines); !strings.Contains(line, `"type":"exit"`) {
			t.Errorf("%s: %s", name, line)
		}
	}
}

func TestAnswerThatFollowsASilentCommandBeginsAtOnce(t *testing.T) {
	d := newDoor(t)
	gateway.SetSilence(d.gateway, time.Hour)
	d.sandbox()
	ran := bufio.NewScanner(d.begin("POST", job+"/exec", `{"script":"read x","open_stdin":true}`, inLines).Body)
	id := quoted(said(t, ran), `"exec_id":"`)
	if r := d.begin("GET", job+"/processes/"+id+"/output?follow=true", ""); r.StatusCode != http.StatusOK {
		t.Errorf("it answers %d", r.StatusCode)
	}
}

// quoted returns what a text has between what is before and the next quote.
func quoted(text, before string) string {
	_, after, _ := strings.Cut(text, before)
	value, _, _ := strings.Cut(after, `"`)
	return value
}

func TestSilentSearchKeepsItsAnswerOpen(t *testing.T) {
	d := newDoor(t)
	gateway.SetSilence(d.gateway, time.Nanosecond) // so that the search is slow
	d.sandbox()
	for i := range 20 {
		d.walk(step{"PUT", fmt.Sprintf("%s/files?path=f%d", job, i), "text", nil, http.StatusCreated, ""})
	}
	for _, search := range []func() *http.Response{
		func() *http.Response { return d.begin("GET", job+"/glob?pattern=**", "") },
		func() *http.Response { return d.begin("POST", job+"/grep", `{"pattern":"text","report":"files"}`) },
	} {
		eventually(t, "an empty line", func() bool {
			lines, empty, last := bufio.NewScanner(search().Body), false, ""
			count := 0
			for lines.Scan() {
				if lines.Text() == "" {
					empty = true
				} else {
					last, count = lines.Text(), count+1
				}
			}
			if count != 21 || !strings.Contains(last, `"type":"end"`) {
				t.Fatalf("%d lines, and the last is %s", count, last)
			}
			return empty
		})
	}
}
