package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// An index says what the latest scan found in each file: where a stat tells that nothing
// has changed, its hash need not be computed again. It is no part of any checkpoint. One
// that is missing, or that another process has written, costs time only.
type index struct {
	// boot tells which start of the machine the index is of. After another start, what
	// had been written shortly before may be gone, from files and objects alike.
	boot    string
	records []record // in the order of the scan
	next    int      // the record that is likely to be asked for next
	byInode map[inodeID]int
}

// An inodeID names a file. One tree may have files of several devices, such as those of layers or
// subvolumes, which use the same numbers.
type inodeID struct{ dev, inode uint64 }

// A record is what an index has of a file or directory.
type record struct {
	inodeID
	ctime, mtime, bytes int64
	hash                Hash
	flags               byte
}

// racy is a flag of a record, besides those of an entry: the file may have changed since without its times telling.
const racy = 1 << 7

const (
	indexHeader = "podagent index 2\n"
	recordSize  = 8 + 8 + 8 + 8 + 8 + sha256.Size + 1
	maxBoot     = 64
	// maxIndexSize is that of an index of as many files as there may be.
	maxIndexSize = tree.MaxEntries*recordSize + 1024
)

// find returns the record of a file, nil if there is none.
func (x *index) find(id inodeID) *record {
	if x.next < len(x.records) && x.records[x.next].inodeID == id {
		x.next++
		return &x.records[x.next-1]
	}
	if x.byInode == nil {
		x.byInode = make(map[inodeID]int, len(x.records))
		for i := range x.records {
			x.byInode[x.records[i].inodeID] = i
		}
	}
	i, ok := x.byInode[id]
	if !ok {
		return nil
	}
	x.next = i + 1
	return &x.records[i]
}

func (x *index) encode() []byte {
	b := slices.Grow([]byte(indexHeader), len(x.records)*recordSize+maxBoot+8)
	boot := x.boot[:min(len(x.boot), maxBoot)]
	b = append(append(b, byte(len(boot))), boot...)
	for i := range x.records {
		r := &x.records[i]
		b = binary.LittleEndian.AppendUint64(b, r.dev)
		b = binary.LittleEndian.AppendUint64(b, r.inode)
		b = binary.LittleEndian.AppendUint64(b, uint64(r.ctime))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.mtime))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.bytes))
		b = append(b, r.hash[:]...)
		b = append(b, r.flags)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

var errIndex = errors.New("not an index")

func decodeIndex(b []byte) (*index, error) {
	if len(b) < len(indexHeader)+4 || string(b[:len(indexHeader)]) != indexHeader {
		return nil, errIndex
	}
	b, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.ChecksumIEEE(b) != sum {
		return nil, errIndex
	}
	b = b[len(indexHeader):]
	if len(b) == 0 || b[0] > maxBoot || len(b) <= int(b[0]) {
		return nil, errIndex
	}
	boot, b := string(b[1:1+b[0]]), b[1+b[0]:]
	if len(b)%recordSize != 0 {
		return nil, errIndex
	}
	x := &index{boot: boot, records: make([]record, 0, len(b)/recordSize)}
	for ; len(b) > 0; b = b[recordSize:] {
		r := record{
			inodeID: inodeID{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])},
			ctime:   int64(binary.LittleEndian.Uint64(b[16:])),
			mtime:   int64(binary.LittleEndian.Uint64(b[24:])),
			bytes:   int64(binary.LittleEndian.Uint64(b[32:])),
			flags:   b[recordSize-1],
		}
		copy(r.hash[:], b[40:])
		x.records = append(x.records, r)
	}
	return x, nil
}
