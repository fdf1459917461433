package sshserver

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// mode is what stty calls a mode of a terminal, and the value that a new terminal of Linux has.
type mode struct {
	name  string
	usual uint32
}

// characters are the special characters, by their numbers in RFC 4254, 8.
var characters = map[byte]mode{
	1: {"intr", 3}, 2: {"quit", 28}, 3: {"erase", 127}, 4: {"kill", 21}, 5: {"eof", 4},
	8: {"start", 17}, 9: {"stop", 19}, 10: {"susp", 26}, 12: {"rprnt", 18}, 13: {"werase", 23}, 14: {"lnext", 22},
}

// switches are the modes that are on or off.
var switches = map[byte]mode{
	30: {"ignpar", 0}, 31: {"parmrk", 0}, 32: {"inpck", 0}, 33: {"istrip", 0}, 34: {"inlcr", 0}, 35: {"igncr", 0},
	36: {"icrnl", 1}, 38: {"ixon", 1}, 39: {"ixany", 0}, 40: {"ixoff", 0}, 41: {"imaxbel", 0}, 42: {"iutf8", 0},
	50: {"isig", 1}, 51: {"icanon", 1}, 53: {"echo", 1}, 54: {"echoe", 1}, 55: {"echok", 1}, 56: {"echonl", 0},
	57: {"noflsh", 0}, 58: {"tostop", 0}, 59: {"iexten", 1}, 60: {"echoctl", 1}, 61: {"echoke", 1},
	70: {"opost", 1}, 72: {"onlcr", 1}, 73: {"ocrnl", 0}, 74: {"onocr", 0}, 75: {"onlret", 0},
}

const (
	modesEnd   = 0
	firstOther = 160 // of modes whose length is not known
)

// parseModes returns what stty is to set in a new terminal, so that it has the modes which the
// client sent (RFC 4254, 8). Modes that a terminal of Linux has anyway are left out, as are the
// speed, and modes that stty does not know.
func parseModes(modes string) ([]string, error) {
	if len(modes) > maxModes {
		return nil, errors.New("too many modes of the terminal")
	}
	var set []string
	seen := map[byte]bool{}
	for len(modes) > 0 && modes[0] != modesEnd && modes[0] < firstOther {
		if len(modes) < 5 {
			return nil, errors.New("the modes of the terminal are cut off")
		}
		op, value := modes[0], binary.BigEndian.Uint32([]byte(modes[1:5]))
		modes = modes[5:]
		if !seen[op] {
			set = append(set, setMode(op, value)...)
		}
		seen[op] = true
	}
	return set, nil
}

func setMode(op byte, value uint32) []string {
	if m, ok := characters[op]; ok && value != m.usual {
		return []string{m.name, character(value)}
	}
	m, ok := switches[op]
	switch {
	case !ok || (value != 0) == (m.usual != 0):
		return nil
	case value != 0:
		return []string{m.name}
	}
	return []string{"-" + m.name}
}

// character returns a special character for stty. 255 says that there is none.
func character(value uint32) string {
	if value == 0 || value > 254 {
		return "undef"
	}
	return fmt.Sprintf("0x%x", value)
}
