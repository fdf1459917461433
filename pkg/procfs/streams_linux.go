package procfs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Streams returns names of the pipes, sockets and terminals that are the standard streams of a
// process, up to three. Two processes have the same one if the names are equal. What is closed,
// a file, or another device is left out. The error for a process that this one may not look
// into is [fs.ErrPermission].
func Streams(pid int) ([]string, error) {
	var names []string
	for fd := range 3 {
		name, err := os.Readlink(pathOf(pid, "fd/"+strconv.Itoa(fd)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case strings.HasPrefix(name, "pipe:"), strings.HasPrefix(name, "socket:"), strings.HasPrefix(name, "/dev/pts/"):
			names = append(names, name)
		}
	}
	return names, nil
}
