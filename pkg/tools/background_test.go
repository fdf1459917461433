package tools_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
)

var execID = uuid

func TestBackground(t *testing.T) {
	h := newHost(t, tools.Options{})
	started := h.text("Bash", `{"command": "echo first; echo error >&2; while [ ! -e go ]; do sleep 0.05; done; echo second; exit 5", "run_in_background": true}`)
	id := execID.FindString(started)
	read := `{"id": "` + id + `"}`
	until(t, func() bool {
		return strings.Contains(h.text("BashOutput", `{"id": "`+id+`", "offset": 0}`), "first\nerror\n")
	})
	if got := h.text("BashOutput", read); got != "(no output)\n(running; the output continues at offset 12)" {
		t.Errorf("read again: %q", got)
	}
	h.put("go", "")
	until(t, func() bool { return strings.Contains(h.text("BashOutput", `{"id": "`+id+`", "offset": 0}`), "ended") })
	want := "second\n(ended, exit status 5; the output continues at offset 19)"
	has(t, h.refused("BashOutput", `{"id": "`+id+`", "offset": 9999}`), "offset 9999 is beyond the end")
	if got := h.text("BashOutput", read); got != "(no output)\n(ended, exit status 5; the output continues at offset 19)" {
		t.Errorf("after a wrong offset: %q", got)
	}
	if got := h.text("BashOutput", `{"id": "`+id+`", "offset": 12}`); got != want {
		t.Errorf("from an offset: %q", got)
	}
}

func TestBackgroundCommandIsKnownToASessionThatDidNotStartIt(t *testing.T) {
	s := launchertest.Sandbox(t)
	one := &host{Session: tools.New(s, tools.Options{}, tools.Coding()...), t: t}
	id := execID.FindString(one.text("Bash", `{"command": "echo here; sleep 60", "run_in_background": true}`))
	two := &host{Session: tools.New(s, tools.Options{}, tools.Coding()...), t: t}
	until(t, func() bool { return strings.Contains(one.text("BashOutput", `{"id": "`+id+`", "offset": 0}`), "here") })
	if got := two.text("BashOutput", `{"id": "`+id+`"}`); got != "here\n(running; the output continues at offset 5)" {
		t.Errorf("got %q", got)
	}
	if got := two.text("BashKill", `{"id": "`+id+`"}`); got != "(no output)\n(ended, signal 15; the output continues at offset 5)" {
		t.Errorf("BashKill: %q", got)
	}
	if got := one.text("BashKill", `{"id": "`+id+`"}`); got != "(no output)\n(ended, signal 15; the output continues at offset 5)" {
		t.Errorf("BashKill again: %q", got)
	}
}

func TestBackgroundCommandThatLeftAProcessBehindSaysIt(t *testing.T) {
	h := newHost(t, tools.Options{})
	id := execID.FindString(h.text("Bash", `{"command": "sleep 300 & echo $!", "run_in_background": true}`))
	var text string
	until(t, func() bool {
		text = h.text("BashOutput", `{"id": "`+id+`", "offset": 0}`)
		return strings.Contains(text, "(ended")
	})
	has(t, text, "(a process that it started is still running, and its output is not shown; end it with kill in Bash)\n(ended, exit status 0;")
	h.text("Bash", `{"command": "kill `+strings.SplitN(text, "\n", 2)[0]+`"}`)
}

func TestBashKillEndsWhatIgnoresTERM(t *testing.T) {
	h := newHost(t, tools.Options{})
	id := execID.FindString(h.text("Bash", `{"command": "trap '' TERM; echo ready; while :; do sleep 1; done", "run_in_background": true}`))
	until(t, func() bool { return strings.Contains(h.text("BashOutput", `{"id": "`+id+`", "offset": 0}`), "ready") })
	has(t, h.text("BashKill", `{"id": "`+id+`"}`), "(ended, signal 9;")
}

func TestBackgroundIDsThatAreNone(t *testing.T) {
	h := newHost(t, tools.Options{})
	for _, tool := range []string{"BashOutput", "BashKill"} {
		for _, id := range []string{"nonsense", "01890a5d-ac96-774b-bcce-b302099a8057"} {
			has(t, h.refused(tool, `{"id": "`+id+`"}`), "there is no command with the id \""+id+"\". There are no commands at all")
		}
	}
	id := execID.FindString(h.text("Bash", `{"command": "sleep 60", "run_in_background": true}`))
	has(t, h.refused("BashOutput", `{"id": "1"}`), "The last ones are: "+id+" (sleep 60)")
	has(t, h.refused("Bash", `{"command": "true", "cwd": "none", "run_in_background": true}`), "Nothing was run.")
}

// until waits until a condition holds.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hung); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to be")
		}
	}
}
