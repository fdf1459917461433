package main

import (
	"os/exec"
	"testing"
)

func TestATerminalBySSHOutlivesItsClient(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Fatal(err)
	}
	w := newDesktop(t, "PODAGENT_BACKEND=local")
	win := w.open(t, "ssh", "a", "--session", "main")
	win.typed("stty size; echo $((6 * 7)); kept=7\n")
	win.expect(`24 80\r\n42\r\n`)
	win.resize(30, 100)
	win.typed("stty size\n")
	win.expect(`30 100\r\n`)
	win.typed("\r~.") // the keys that have ssh end
	win.exits(255)

	win = w.open(t, "ssh", "a", "--session", "main")
	win.expect(`(?s)42.*30 100`)
	win.typed("exit $kept\n")
	win.exits(7)
}
