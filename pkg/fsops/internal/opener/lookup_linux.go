package opener

import (
	"strings"

	"golang.org/x/sys/unix"
)

// lookup is resolve without openat2: it goes from one directory to the next, and reads
// each symbolic link itself.
func lookup(dir int, path string, flags int) (int, error) {
	if path == "" {
		return -1, unix.ENOENT
	}
	l := trail{at: dir, flags: flags}
	defer l.leave()
	for rest := path; ; {
		fd, todo, err := l.step(rest)
		if fd >= 0 || err != nil {
			return fd, err
		}
		rest = todo
	}
}

// A trail is a path that is being followed.
type trail struct {
	at    int  // the directory reached
	held  bool // at is to be closed
	flags int
	links int
}

func (l *trail) leave() {
	if l.held {
		_ = unix.Close(l.at)
	}
}

// goTo makes an open directory the one that is reached.
func (l *trail) goTo(fd int) {
	l.leave()
	l.at, l.held = fd, true
}

// step follows the first part of a path. It returns the file's descriptor if the path is
// at its end, and otherwise the rest of the path.
func (l *trail) step(path string) (fd int, rest string, err error) {
	if strings.HasPrefix(path, "/") {
		root, err := open(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, "", err
		}
		l.goTo(root)
	}
	base, rest, below := strings.Cut(strings.TrimLeft(path, "/"), "/")
	if base == "" {
		fd, err := open(l.at, ".", l.flags)
		return fd, "", err
	}
	next, err := open(l.at, base, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, "", err
	}
	var st unixStat
	if err := fstat(next, &st); err != nil {
		_ = unix.Close(next)
		return -1, "", err
	}
	switch typ := st.Mode & unix.S_IFMT; {
	case typ == unix.S_IFLNK && (below || l.flags&unix.O_NOFOLLOW == 0):
		defer unix.Close(next)
		rest, err := l.link(next, &st, rest, below)
		return -1, rest, err
	case typ == unix.S_IFLNK && l.flags&unix.O_PATH != 0 && l.flags&unix.O_DIRECTORY == 0:
		return next, "", nil
	case below && typ != unix.S_IFDIR:
		_ = unix.Close(next)
		return -1, "", unix.ENOTDIR
	case below:
		l.goTo(next)
		if rest = strings.TrimLeft(rest, "/"); rest != "" {
			return -1, rest, nil
		}
		fd, err := open(l.at, ".", l.flags)
		return fd, "", err
	}
	_ = unix.Close(next)
	return l.last(base)
}

// last opens the last part of the path, which was no symbolic link, or is not to be
// followed.
func (l *trail) last(base string) (fd int, rest string, err error) {
	fd, err = open(l.at, base, l.flags|unix.O_NOFOLLOW)
	if err == unix.ELOOP && l.flags&unix.O_NOFOLLOW == 0 { // it is a link by now
		if l.links++; l.links <= maxLinks {
			return -1, base, nil
		}
	}
	return fd, "", err
}

// link returns the path on which an open symbolic link leads, with the rest behind it.
func (l *trail) link(fd int, st *unixStat, rest string, below bool) (string, error) {
	if l.links++; l.links > maxLinks {
		return "", unix.ELOOP
	}
	target, err := readlink(fd)
	if err != nil {
		return "", err
	}
	control, err := controlOf(fd, st)
	if err != nil {
		return "", err
	}
	if control == unix.PROC_SUPER_MAGIC && isMagic(target) {
		return "", errMagic
	}
	if below {
		target += "/" + rest
	}
	return target, nil
}

// isMagic reports whether a link on procfs with that text may be a magic one. Those show an
// absolute path, or what they lead to: "pipe:[123]". The ordinary ones are relative.
func isMagic(text string) bool {
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "(") || strings.Contains(text, ":")
}
