package flagvalue

import (
	"fmt"
	"strconv"
	"strings"
)

// Signal is a flag for a signal of Linux, whatever signals this system has.
type Signal struct {
	Name   string // without SIG, or the number
	Number int
}

// linuxSignals are the names of the signals of Linux on amd64 and arm64, in the
// order of their numbers from 1 (signal(7)).
var linuxSignals = strings.Fields(`HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT
	CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS`)

// lastSignal is the highest number of a real-time signal.
const lastSignal = 64

func (s *Signal) String() string { return s.Name }
func (s *Signal) Type() string   { return "SIGNAL" }

func (s *Signal) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= lastSignal {
		s.Name, s.Number = text, n
		return nil
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	for i, known := range linuxSignals {
		if name == known {
			s.Name, s.Number = name, i+1
			return nil
		}
	}
	return fmt.Errorf("it is neither the name of a signal nor a number from 1 to %d", lastSignal)
}
