package object

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
)

// add stores an object: encode appends it to a buffer, and returns how it is encoded. whole says that it is known to
// be what its hash says. An object that is there is stored again.
func (p *packs) add(h Hash, whole bool, encode func(b []byte) ([]byte, Encoding)) (size int64, err error) {
	k, err := p.take()
	if err != nil {
		return 0, err
	}
	at := place{pack: uint32(k.number), whole: whole}
	written, err := k.add(h, &at, encode)
	full := written >= p.full
	if full && err == nil {
		err = p.seal(k)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.drop(k)
		return 0, err
	}
	p.places[h] = at
	if !full {
		p.idle = append(p.idle, k)
	}
	return int64(at.length) + int64(packRecord), nil
}

// take returns a pack that nobody else writes to just now.
func (p *packs) take() (*pack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return nil, err
	}
	if n := len(p.idle); n > 0 {
		k := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return k, nil
	}
	file, err := os.OpenFile(filepath.Join(p.tmp, rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return nil, err
	}
	k := &pack{file: file, number: len(p.all), buf: make([]byte, 0, packBuffer+packBuffer/4)}
	p.all = append(p.all, k)
	return k, nil
}

// add appends an object, completes its place, and returns how much of the pack is written.
func (k *pack) add(h Hash, at *place, encode func(b []byte) ([]byte, Encoding)) (written int64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.buf)
	at.offset = k.written + int64(before)
	k.buf, at.how = encode(k.buf)
	at.length = uint32(len(k.buf) - before)
	k.list = append(k.list, h[:]...)
	k.list = binary.LittleEndian.AppendUint32(k.list, at.length<<1|uint32(at.how))
	if len(k.buf) >= packBuffer {
		err = k.write()
	}
	return k.written, err
}

// flush writes what is in memory, so that it can be read.
func (k *pack) flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.write()
}

func (k *pack) write() error {
	n, err := k.file.Write(k.buf)
	k.written += int64(n)
	k.buf = k.buf[:copy(k.buf, k.buf[n:])]
	return err
}

// tempPath is that of a pack that has no place yet. Where the directories are changes: see Store.Place.
func (p *packs) tempPath(k *pack) string { return filepath.Join(p.tmp, filepath.Base(k.file.Name())) }

// sealAll gives the packs that are being written their places. Nobody may add objects meanwhile.
func (p *packs) sealAll() error {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var err error
	for _, k := range idle {
		if sealErr := p.seal(k); sealErr != nil {
			err = errors.Join(err, sealErr)
			p.mu.Lock()
			p.drop(k)
			p.mu.Unlock()
		}
	}
	return err
}

// drop removes a pack that cannot be written, and forgets its objects: others may have put some of them, and have to put
// them again. The caller holds p.mu.
func (p *packs) drop(k *pack) {
	for h, at := range p.places {
		if p.all[at.pack] == k {
			delete(p.places, h)
		}
	}
	_ = os.Remove(p.tempPath(k))
	k.file.Close() // so that the disk has its room back
	k.gone = true
}

// seal ends a pack, and gives it its place.
func (p *packs) seal(k *pack) error {
	if err := k.end(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := packName(p.next)
	if err := os.Rename(p.tempPath(k), filepath.Join(p.dir, name)); err != nil {
		return err
	}
	p.next++
	k.name, k.size = name, k.written
	if p.open++; p.open > openPacks {
		p.open--
		k.file.Close()
		k.file = nil
	}
	return nil
}

// end writes the list of a pack's objects.
func (k *pack) end() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.buf = append(k.buf, k.list...)
	k.buf = binary.LittleEndian.AppendUint32(k.buf, uint32(len(k.list)/packRecord))
	k.buf = binary.LittleEndian.AppendUint32(k.buf, crc32.ChecksumIEEE(k.list))
	k.buf = append(k.buf, packMagic...)
	err := k.write()
	k.buf, k.list = nil, nil
	return err
}

// abandon forgets the packs that were not sealed, with what is in them. Nobody may add objects meanwhile.
func (p *packs) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for h, at := range p.places {
		if p.all[at.pack].name == "" {
			delete(p.places, h)
		}
	}
	for _, k := range p.all {
		if k.name == "" && !k.gone {
			_ = os.Remove(p.tempPath(k))
			k.gone = true
		}
	}
	p.idle = nil
}
