package sshserver

import (
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// FuzzRequests checks that whatever a client sends is refused or within bounds.
func FuzzRequests(f *testing.F) {
	f.Add(ssh.Marshal(struct {
		Term       string
		C, R, W, H uint32
		Modes      string
	}{"xterm", 80, 24, 0, 0, "\x35\x00\x00\x00\x00\x01\x00\x00\x00\xff\x00"}))
	f.Add(ssh.Marshal(struct{ Name, Value string }{"LANG", "C"}))
	f.Add(ssh.Marshal(directTCPIP{"localhost", 80, "127.0.0.1", 5}))
	f.Add(ssh.Marshal(struct{ C, R, W, H uint32 }{80, 24, 0, 0}))
	f.Add([]byte("\x00\x00\x00\x04true"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if term, err := parseTerminal(data); err == nil {
			if strings.ContainsRune(term.name, 0) || min(term.size.Rows, term.size.Columns) < 1 || max(term.size.Rows, term.size.Columns) > 65535 {
				t.Errorf("a terminal %+v", term)
			}
			for _, m := range term.modes {
				if strings.Trim(m, "-0123456789abcdefghijklmnopqrstuvwxyz") != "" {
					t.Errorf("stty gets %q", m)
				}
			}
		}
		if size, err := parseResize(data); err == nil && (min(size.Rows, size.Columns) < 1 || max(size.Rows, size.Columns) > 65535) {
			t.Errorf("a size %+v", size)
		}
		if v, err := parseVariable(data); err == nil {
			if name, _, ok := strings.Cut(v, "="); !ok || strings.ContainsRune(v, 0) || !isVariable(name) {
				t.Errorf("a variable %q", v)
			}
		}
		if port, err := parsePort(data); err == nil && (port < 1 || port > 65535) {
			t.Errorf("port %d", port)
		}
		if text, err := parseText(data); err == nil && len(text) > len(data) {
			t.Errorf("a text of %d bytes in %d", len(text), len(data))
		}
		if words, ok := plainWords(string(data)); ok && len(words) == 0 {
			t.Error("a command without words")
		}
		if why := plain(string(data)); len(why) > maxReason || strings.ContainsAny(why, "\x1b\r\n") {
			t.Errorf("a reason %q", why)
		}
	})
}
