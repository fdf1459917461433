package procfs

import (
	"bytes"
	"strconv"
)

// maxMaps is how much of the list of mappings is read: some ten thousand of them.
const maxMaps = 1 << 20

// MapsToWrite calls visit with the inode of each file that a process maps so that what it writes to memory gets
// into the file, as far as the first MiB of its list of mappings tells.
func (fs *FS) MapsToWrite(pid int, visit func(inode uint64)) error {
	_, err := fs.lines(pathOf(pid, "maps"), maxMaps, func(line []byte) {
		if inode := inodeToWrite(line); inode != 0 {
			visit(inode)
		}
	})
	return err
}

// inodeToWrite returns the inode in a line of a list of mappings if it is mapped to write to the file, else 0.
func inodeToWrite(line []byte) uint64 {
	fields := bytes.Fields(line)
	if len(fields) < 5 || len(fields[1]) < 4 || fields[1][1] != 'w' || fields[1][3] != 's' {
		return 0
	}
	inode, _ := strconv.ParseUint(string(fields[4]), 10, 64)
	return inode
}

// BootID tells one start of the machine from another; "" if it is not known.
func (fs *FS) BootID() (id string) {
	_ = fs.read(root+"/sys/kernel/random/boot_id", func(text []byte) error {
		id = string(bytes.TrimSpace(text))
		return nil
	})
	return id
}
