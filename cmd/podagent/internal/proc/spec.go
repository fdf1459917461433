package proc

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// validate checks a spec without the file system, and returns the parsed id. Its
// errors wrap [syscall.EINVAL].
func (s *Spec) validate() (uuid.UUID, error) {
	id, err := parseID(s.ID)
	if err != nil {
		return id, err
	}
	if fault := s.fault(); fault != "" {
		return id, fmt.Errorf("cannot start exec %s: %s: %w", s.ID, fault, syscall.EINVAL)
	}
	return id, nil
}

// fault says what is wrong with the spec, or nothing.
func (s *Spec) fault() string {
	switch {
	case len(s.Argv) == 0 && s.Script == "":
		return "neither a command nor a script is given"
	case len(s.Argv) > 0 && s.Script != "":
		return "both a command and a script are given"
	case len(s.Argv) > 0 && s.Argv[0] == "":
		return "the name of the command is empty"
	case !filepath.IsAbs(s.Dir):
		return fmt.Sprintf("the directory %q is not absolute", s.Dir)
	case s.Timeout < 0:
		return fmt.Sprintf("the timeout %v is negative", s.Timeout)
	case s.hasNUL():
		return "an argument, the script, the directory or the environment contains a NUL byte"
	}
	return rlimitFault(s.Rlimits)
}

func (s *Spec) hasNUL() bool {
	for _, list := range [][]string{s.Argv, s.Env, {s.Script, s.Dir}} {
		for _, v := range list {
			if strings.IndexByte(v, 0) >= 0 {
				return true
			}
		}
	}
	return false
}

// parseID accepts only one spelling of a UUIDv7. With two spellings a command could
// run twice.
func parseID(s string) (uuid.UUID, error) {
	if s == "" {
		return uuid.Nil, fmt.Errorf("cannot start a process: the exec id is empty: %w", syscall.EINVAL)
	}
	id, err := uuid.Parse(s)
	if err != nil || id.Version() != 7 || id.String() != s {
		return uuid.Nil, fmt.Errorf("cannot start a process: exec id %q is not a UUIDv7 in lower case: %w", s, syscall.EINVAL)
	}
	return id, nil
}

// digest stands for the spec in comparisons, so that the manager need not keep a long
// environment.
func (s *Spec) digest() [sha256.Size]byte {
	if s.Digest != [sha256.Size]byte{} {
		return s.Digest
	}
	h := sha256.New()
	number := func(n uint64) {
		h.Write(binary.LittleEndian.AppendUint64(nil, n))
	}
	for _, list := range [][]string{s.Argv, s.Env, {s.Script, s.Dir}} {
		number(uint64(len(list)))
		for _, v := range list {
			number(uint64(len(v)))
			h.Write([]byte(v))
		}
	}
	number(uint64(s.Timeout))
	number(s.input())
	for _, l := range s.Rlimits {
		number(uint64(rlimitResources[l.Resource]))
		number(l.Soft)
		number(l.Hard)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// input encodes the kind of standard input and terminal as a number.
func (s *Spec) input() uint64 {
	switch {
	case s.Terminal != nil:
		return 1<<32 | uint64(s.Terminal.Rows)<<16 | uint64(s.Terminal.Columns)
	case s.Stdin:
		return 1
	}
	return 0
}

// environ is the environment of the process: the spec's with the marker and the
// terminal's type. The marker comes first, because package procfs reads only the beginning
// of an environment.
func (s *Spec) environ() []string {
	env := make([]string, 1, len(s.Env)+2)
	env[0] = markerEnv + "=" + s.ID
	typed := s.Terminal == nil
	for _, v := range s.Env {
		if !strings.HasPrefix(v, markerEnv+"=") {
			env = append(env, v)
		}
		typed = typed || strings.HasPrefix(v, "TERM=")
	}
	if !typed {
		env = append(env, defaultTerm)
	}
	return env
}
