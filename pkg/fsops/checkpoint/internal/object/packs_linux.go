package object

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// Small objects are in packs: files with many of them, one behind the other. A pack ends with the list of what it has,
// 36 bytes for each object, and 16 bytes about the list; numbers are little-endian:
//
//	object… | (hash | length<<1 + 1 if it is compressed)… | number of objects | CRC-32 of the list | "podpack1"
//
// A pack is written among the temporary files, and gets its place when it is whole. So a process that is killed leaves none that is not.
// The name of a pack is its number. Where two packs have the same object, the later one counts: a damaged object
// is replaced by storing it again.

const (
	packMagic  = "podpack1"
	packRecord = len(Hash{}) + 4
	packTail   = 4 + 4 + len(packMagic)
	// packSize is how large a pack gets, and a bit more. Collection may have to write as much again.
	packSize = 64 << 20
	// packBuffer is how much of a pack is in memory until it is written.
	packBuffer = 512 << 10
	// maxPacks and maxObjects bound what is read of a store: some packs for each checkpoint, and half a GiB of memory.
	maxPacks   = 1 << 16
	maxObjects = 4 << 20
	// openPacks is how many packs are open at once.
	openPacks = 64
)

// A place is where an object is in a pack.
type place struct {
	pack   uint32 // in packs.all
	length uint32 // as it is stored
	offset int64
	how    Encoding
	// whole says that somebody has read it, and that it was what its hash says.
	whole bool
}

// A pack is a file with objects.
type pack struct {
	name string
	size int64
	file *os.File // nil if it is not open
	gone bool     // removed

	mu      sync.Mutex // guards what follows, of a pack that is being written
	buf     []byte
	written int64
	list    []byte
	number  int // in packs.all
}

// packs are those of a store. What is in them is known while somebody uses the store, and forgotten afterwards, since
// an idle agent is to be small.
type packs struct {
	dir, tmp string
	full     int64 // how large a pack gets

	mu     sync.Mutex
	users  int
	loaded bool
	all    []*pack
	places map[Hash]place
	next   uint64  // the number of the next pack
	open   int     // how many of all are open for reading
	idle   []*pack // that are being written, but by nobody just now
}

// place gives the packs other paths of the same directories.
func (p *packs) place(dir, tmp string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dir, p.tmp = dir, tmp
}

// use keeps what is known of the packs until done is called.
func (p *packs) use() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users--; p.users == 0 {
			p.forget()
		}
	}
}

// forget closes all packs. Those that were not sealed are lost. The caller holds p.mu.
func (p *packs) forget() {
	for _, k := range p.all {
		if k.file != nil {
			k.file.Close()
		}
		if k.name == "" && !k.gone {
			_ = os.Remove(p.tempPath(k))
		}
	}
	p.loaded, p.all, p.places, p.idle, p.open = false, nil, nil, nil, 0
}

// load reads what is in the packs, if that is not known. Files that are no packs count for nothing. The caller holds p.mu.
func (p *packs) load() error {
	if p.loaded {
		return nil
	}
	numbers, err := p.numbers()
	if err != nil {
		return err
	}
	p.all, p.places, p.next = nil, map[Hash]place{}, 1
	for _, n := range numbers {
		p.next = n + 1
		k, list, err := p.readList(packName(n))
		if errors.Is(err, ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if len(p.places)+len(list)/packRecord > maxObjects {
			return fmt.Errorf("%w: the store has more than %d objects", ErrTooLarge, maxObjects)
		}
		p.all = append(p.all, k)
		p.learn(uint32(len(p.all)-1), list)
	}
	p.loaded = true
	return nil
}

// learn notes where the objects of a pack are.
func (p *packs) learn(number uint32, list []byte) {
	offset := int64(0)
	for record := range slices.Chunk(list, packRecord) {
		length, how := splitLength(record)
		p.places[Hash(record)] = place{pack: number, offset: offset, length: length, how: how}
		offset += int64(length)
	}
}

func splitLength(record []byte) (length uint32, how Encoding) {
	n := binary.LittleEndian.Uint32(record[len(Hash{}):])
	return n >> 1, Encoding(n & 1)
}

// maxNumber bounds the numbers of packs, which start at 1. What has a larger one was forged, and counts for nothing.
const maxNumber = 1 << 60

func packName(number uint64) string { return fmt.Sprintf("%016x", number) }

// numbers returns the numbers of the packs, in order.
func (p *packs) numbers() (list []uint64, err error) {
	names, err := NamesIn(p.dir, maxPacks)
	if errors.Is(err, fs.ErrNotExist) { // see Dirs
		return nil, nil
	}
	for _, name := range names {
		if n, err := strconv.ParseUint(name, 16, 63); err == nil && packName(n) == name && n < maxNumber {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, err
}

// readList reads the list at the end of a pack. Of a file that is no pack, the error is ErrCorrupt.
func (p *packs) readList(name string) (*pack, []byte, error) {
	file, size, err := OpenRegular(filepath.Join(p.dir, name))
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	notOne := fmt.Errorf("%w: %s is no pack", ErrCorrupt, name)
	var tail [packTail]byte
	if size < int64(packTail) {
		return nil, nil, notOne
	}
	if _, err := file.ReadAt(tail[:], size-int64(packTail)); err != nil {
		return nil, nil, err
	}
	count := int64(binary.LittleEndian.Uint32(tail[:]))
	rest := size - int64(packTail) - count*int64(packRecord)
	if string(tail[8:]) != packMagic || count > maxObjects || rest < 0 {
		return nil, nil, notOne
	}
	list := make([]byte, count*int64(packRecord))
	if _, err := file.ReadAt(list, rest); err != nil {
		return nil, nil, err
	}
	for record := range slices.Chunk(list, packRecord) {
		length, _ := splitLength(record)
		rest -= int64(length)
	}
	if rest != 0 || crc32.ChecksumIEEE(list) != binary.LittleEndian.Uint32(tail[4:]) {
		return nil, nil, notOne
	}
	return &pack{name: name, size: size}, list, nil
}

// find returns where an object is.
func (p *packs) find(h Hash) (at place, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return at, false, err
	}
	at, ok = p.places[h]
	return at, ok, nil
}

// path is that of the pack at a place.
func (p *packs) path(at place) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return filepath.Join(p.dir, p.all[at.pack].name)
}

// believe notes that an object is whole.
func (p *packs) believe(h Hash, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places[h] == at {
		at.whole = true
		p.places[h] = at
	}
}

// read reads what is stored at a place into buf, and returns it. No object takes more than MaxDir, so a list that says
// so was forged: that is ErrCorrupt, and takes no memory.
func (p *packs) read(at place, buf []byte) ([]byte, error) {
	if at.length > MaxDir {
		return buf, fmt.Errorf("%w: a pack says that an object has %d bytes", ErrCorrupt, at.length)
	}
	buf = grow(buf, int64(at.length))
	file, done, err := p.reader(at.pack)
	if err != nil {
		return buf, err
	}
	defer done()
	_, err = file.ReadAt(buf, at.offset)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: a pack is shorter than it was", ErrCorrupt)
	}
	return buf, err
}

// reader opens a pack, unless it is open.
func (p *packs) reader(number uint32) (file *os.File, done func(), err error) {
	p.mu.Lock()
	k := p.all[number]
	file, sealed := k.file, k.name != ""
	if file == nil {
		defer p.mu.Unlock()
		return p.openPack(k)
	}
	p.mu.Unlock()
	if !sealed {
		err = k.flush()
	}
	return file, func() {}, err
}

// openPack opens a pack for reading. The caller holds p.mu.
func (p *packs) openPack(k *pack) (file *os.File, done func(), err error) {
	file, _, err = OpenRegular(filepath.Join(p.dir, k.name))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: a pack is gone", ErrCorrupt)
	}
	if err != nil {
		return nil, nil, err
	}
	if p.open >= openPacks {
		return file, func() { file.Close() }, nil
	}
	p.open++
	k.file = file
	return file, func() {}, nil
}
