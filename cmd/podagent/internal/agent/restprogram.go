package agent

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// dropProgram takes the pages of the program out of the agent's memory, of which they are most when it is idle. They stay
// in the system's cache, which the processes of a node share, and come back as they are used.
func dropProgram() {
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return // it costs memory only
	}
	defer smaps.Close()
	for _, m := range programMappings(smaps) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// A mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// programMappings returns the mappings of files, in the format of /proc/PID/smaps, whose pages are what the files have: nobody
// may write to them, and nobody has, as a loader does where it relocates a program.
func programMappings(smaps io.Reader) (list []mapping) {
	var now mapping
	file := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 2 {
			continue
		}
		if start, end, ok := bytes.Cut(fields[0], []byte("-")); ok {
			now = mapping{address(start), address(end)}
			file = now.start > 0 && len(fields) >= 6 && fields[5][0] == '/' && fields[1][1] == '-' && now.start < now.end
			continue
		}
		if name, amount := string(fields[0]), string(fields[1]); file && name == "Anonymous:" {
			file = amount == "0"
		} else if file && name == "Swap:" && amount == "0" { // which comes after Anonymous
			list = append(list, now)
		}
	}
	return list
}

// address returns 0 for what is none.
func address(hex []byte) uintptr {
	n, _ := strconv.ParseUint(string(hex), 16, strconv.IntSize)
	return uintptr(n)
}
