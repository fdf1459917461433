package proc

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// interpreterDepth is how many files the kernel opens at most to execute one: a
// script's interpreter may be a script, to that depth (execve(2)), and the last
// one be linked dynamically.
const interpreterDepth = 7

// headSize is how much of a program is looked at: more than the kernel reads of a
// script's first line, and where linkers put a program's headers.
const headSize = 1024

// interpreter returns the file that the kernel opens to execute the program that fd
// has open: of a script that of its first line, of an ELF program its loader. It is
// empty where there is none, or the kernel will say what is wrong.
func interpreter(fd int) string {
	var head [headSize]byte
	n, err := unix.Pread(fd, head[:], 0)
	if err != nil {
		return ""
	}
	if line, ok := bytes.CutPrefix(head[:n], []byte("#!")); ok {
		return scriptInterpreter(line)
	}
	at, size := loaderName(head[:n])
	if size == 0 {
		return ""
	}
	name := make([]byte, size)
	n, err = unix.Pread(fd, name, at)
	if err != nil {
		return ""
	}
	name, _, _ = bytes.Cut(name[:n], []byte{0})
	return string(name)
}

// scriptInterpreter returns the file of a script's first line, of which what is
// before it is gone.
func scriptInterpreter(line []byte) string {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	line = bytes.TrimLeft(line, " \t")
	if end := bytes.IndexAny(line, " \t"); end >= 0 {
		line = line[:end]
	}
	return string(line)
}

// loaderName returns where the name of the loader is in an ELF program of 64 bits,
// whose beginning is head, and how long; 0 if it names none, or not there.
func loaderName(head []byte) (at int64, size int) {
	const fileHeader, programHeader = 64, 56 // the sizes of elf.Header64 and elf.Prog64
	if len(head) < fileHeader || !bytes.HasPrefix(head, []byte(elf.ELFMAG)) || elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return 0, 0
	}
	order := binary.NativeEndian
	from, each, count := order.Uint64(head[32:]), uint64(order.Uint16(head[54:])), uint64(order.Uint16(head[56:]))
	for i := range count {
		start := from + i*each
		if start > uint64(len(head)-programHeader) {
			return 0, 0
		}
		header := head[start:]
		if elf.ProgType(order.Uint32(header)) == elf.PT_INTERP {
			at, size := order.Uint64(header[8:]), order.Uint64(header[32:])
			if at > 1<<62 || size > unix.PathMax {
				return 0, 0
			}
			return int64(at), int(size)
		}
	}
	return 0, 0
}
