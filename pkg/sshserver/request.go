package sshserver

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/podagent/podagent/pkg/podapi"
)

// What clients ask for comes from them: each parser here takes any bytes, and has bounds.

// terminal is the terminal that a client asks for (RFC 4254, 6.2).
type terminal struct {
	name  string // of its type, for TERM
	size  podapi.TerminalSize
	modes []string // arguments of stty
}

func parseTerminal(data []byte) (*terminal, error) {
	var r struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if err := ssh.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if len(r.Term) > maxTerm || strings.ContainsRune(r.Term, 0) {
		return nil, errors.New("the type of the terminal is no name")
	}
	modes, err := parseModes(r.Modes)
	if err != nil {
		return nil, err
	}
	return &terminal{r.Term, sizeOf(r.Rows, r.Columns), modes}, nil
}

func parseResize(data []byte) (podapi.TerminalSize, error) {
	var r struct{ Columns, Rows, Width, Height uint32 }
	err := ssh.Unmarshal(data, &r)
	return sizeOf(r.Rows, r.Columns), err
}

// sizeOf returns a size that a terminal can have. A client without a terminal sends zeros.
func sizeOf(rows, columns uint32) podapi.TerminalSize {
	if rows == 0 || columns == 0 {
		return podapi.TerminalSize{Rows: 24, Columns: 80}
	}
	return podapi.TerminalSize{Rows: int(min(rows, math.MaxUint16)), Columns: int(min(columns, math.MaxUint16))}
}

// parseVariable returns a variable of the environment as NAME=VALUE.
func parseVariable(data []byte) (string, error) {
	var r struct{ Name, Value string }
	if err := ssh.Unmarshal(data, &r); err != nil {
		return "", err
	}
	if !isVariable(r.Name) || strings.ContainsRune(r.Value, 0) {
		return "", fmt.Errorf("%q is no variable", r.Name)
	}
	return r.Name + "=" + r.Value, nil
}

func isVariable(name string) bool {
	for i, c := range []byte(name) {
		isLetter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !isLetter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// parseText returns the one string of a request: a command, the name of a signal or of a
// subsystem.
func parseText(data []byte) (string, error) {
	var r struct{ Text string }
	err := ssh.Unmarshal(data, &r)
	return r.Text, err
}

// CheckTerminal returns an error unless name can be that of a terminal: 1 to 64 letters and
// digits of ASCII, dots, dashes and underscores.
func CheckTerminal(name string) error {
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-", c) >= 0) {
			return fmt.Errorf("%q is no name of a terminal: it may have letters, digits, dots, dashes and underscores", name)
		}
	}
	if name == "" || len(name) > maxTerminal {
		return fmt.Errorf("the name of a terminal has 1 to %d letters, not %d", maxTerminal, len(name))
	}
	return nil
}
