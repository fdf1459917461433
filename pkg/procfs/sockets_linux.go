package procfs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// Listener is a TCP socket that listens.
type Listener struct {
	// Address is where it listens; an address of IPv4 is one also in a socket of IPv6.
	Address netip.AddrPort
	// Inode is the socket's number, as in Sockets.
	Inode uint64
}

// maxSockets is how much is read of each list of sockets, in bytes: some 28,000 of them. Linux lists those that
// listen before all others.
const maxSockets = 4 << 20

// listens is the state of a socket that listens, in the kernel's lists.
const listens = "0A"

// Listeners calls visit with each TCP socket that listens in the network of this process. It says whether it saw all
// of them.
func (fs *FS) Listeners(visit func(Listener)) (all bool, err error) {
	all = true
	for _, name := range []string{"tcp", "tcp6"} {
		last := false // the last one that was seen listens
		more, err := fs.lines(root+"/self/net/"+name, maxSockets, func(line []byte) {
			fields := bytes.Fields(line)
			if len(fields) < 10 {
				return
			}
			if last = string(fields[3]) == listens; last {
				if l, ok := parseListener(fields[1], fields[9]); ok {
					visit(l)
				}
			}
		})
		if err != nil && err != unix.ENOENT { // a system without IPv6
			return false, err
		}
		all = all && !(more && last)
	}
	return all, nil
}

// parseListener reads the fields of an address, in hexadecimal digits, and of an inode. The kernel writes an address
// in words of 32 bits of this machine, and the port as a number.
func parseListener(address, inode []byte) (l Listener, ok bool) {
	digits, port, _ := bytes.Cut(address, []byte(":"))
	ip := make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(ip, digits); err != nil || len(ip)%4 != 0 {
		return l, false
	}
	for word := range len(ip) / 4 {
		binary.NativeEndian.PutUint32(ip[4*word:], binary.BigEndian.Uint32(ip[4*word:]))
	}
	addr, ok := netip.AddrFromSlice(ip)
	number, portErr := strconv.ParseUint(string(port), 16, 16)
	l.Address = netip.AddrPortFrom(addr.Unmap(), uint16(number))
	var err error
	l.Inode, err = strconv.ParseUint(string(inode), 10, 64)
	return l, ok && portErr == nil && err == nil && number > 0
}

// Sockets calls visit with the inode of each socket among the descriptors of a process, until visit returns false. It looks
// at most descriptors, and returns at how many it has.
func (fs *FS) Sockets(pid, most int, visit func(inode uint64) bool) (looked int, err error) {
	err = fs.with(pathOf(pid, "fd"), func(dir int) error {
		buf := fs.buffer()
		defer fs.buffers.Put(buf)
		for {
			n, err := retry(func() (int, error) { return unix.ReadDirent(dir, buf[:]) })
			if n <= 0 || err != nil {
				return err
			}
			_, _, names := unix.ParseDirent(buf[:n], -1, nil)
			for _, name := range names {
				if looked == most {
					return nil
				}
				looked++
				if inode := socketAt(dir, name); inode != 0 && !visit(inode) {
					return nil
				}
			}
		}
	})
	return looked, err
}

// socketAt returns the inode of the socket that a descriptor leads to, 0 for anything else.
func socketAt(dir int, name string) uint64 {
	var link [64]byte
	n, err := retry(func() (int, error) { return unix.Readlinkat(dir, name, link[:]) })
	if err != nil {
		return 0
	}
	digits, socket := bytes.CutPrefix(link[:n], []byte("socket:["))
	digits, whole := bytes.CutSuffix(digits, []byte("]"))
	inode, err := strconv.ParseUint(string(digits), 10, 64)
	if !socket || !whole || err != nil {
		return 0
	}
	return inode
}

// Name returns the name of a process, which it chooses itself: up to 15 bytes of any kind, or a few more for one of the kernel's.
func (fs *FS) Name(pid int) (name string, err error) {
	err = fs.read(pathOf(pid, "comm"), func(text []byte) error {
		name = string(bytes.TrimSuffix(text, []byte("\n")))
		return nil
	})
	return name, err
}
