package checkpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/zstd"
)

// A checkpoint in a file of its own is one zstd frame, with
//
//	header | id | length | manifest | objects… | end | number of objects
//
// where an object is
//
//	mark | hash | encoding | length | bytes as they are stored
//
// and lengths and numbers are varints. Directories come before what is in them.
const (
	fileHeader = "podagent checkpoint 1\n"
	fileObject = 1
	fileEnd    = 0
	// fileWindow is how far back a file refers: its reader needs that much memory.
	fileWindow = 1 << 20
)

// ErrNoFile says that something is not a file with a checkpoint. It comes wrapped.
var ErrNoFile = fmt.Errorf("it is no file with a checkpoint, or only the beginning of one: %w", fs.ErrInvalid)

// FileOptions say how a file with a checkpoint is written.
type FileOptions struct {
	// Unverified has nothing compared: the [Receiver] of the file does that. It is for a process that passes on the
	// checkpoints of many, since a comparison takes up to a gigabyte of memory for the largest trees.
	Unverified bool
}

// A FileWriter writes a file with a checkpoint. It compares all with the hashes, beginning with the id: what is missing, was
// not named by a directory, comes twice or is larger than a directory says is [ErrCorrupt], and a tree that is larger than
// one can be is [ErrTooLarge]. So nobody can have it write more than the files and the directories of a checkpoint.
type FileWriter struct {
	z      *zstd.Encoder
	buf    []byte
	count  uint64
	rest   int64     // of the object that is being written
	verify *verifier // nil if nothing is compared
}

// NewFileWriter begins a file with the checkpoint that has this id and manifest. Without Close, it is not complete.
func NewFileWriter(w io.Writer, id ID, manifest []byte, opts FileOptions) (*FileWriter, error) {
	f := &FileWriter{}
	var err error
	if !opts.Unverified {
		if f.verify, err = newVerifier(id, manifest); err != nil {
			return nil, err
		}
	}
	f.z, err = zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(fileWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	f.buf = append(append(f.buf, fileHeader...), id...)
	f.buf = binary.AppendUvarint(f.buf, uint64(len(manifest)))
	return f, f.flush(manifest)
}

// flush writes what was prepared, and data.
func (f *FileWriter) flush(data []byte) error {
	_, err := f.z.Write(f.buf)
	f.buf = f.buf[:0]
	if err == nil {
		_, err = f.z.Write(data)
	}
	return err
}

var errParts = fmt.Errorf("%w: parts of objects that do not belong together", ErrCorrupt)

// Write adds parts of objects, directories before what is in them. Parts that do not follow one another are [ErrCorrupt].
func (f *FileWriter) Write(parts []Part) error {
	for i := range parts {
		p := &parts[i]
		if f.verify != nil {
			if err := f.verify.take(p); err != nil {
				return err
			}
		}
		if p.First != (f.rest == 0) || p.Size < 0 || !p.First && len(p.Data) == 0 {
			return errParts
		}
		if p.First {
			f.count++
			f.rest = p.Size
			f.buf = append(append(f.buf, fileObject), p.Object[:]...)
			f.buf = binary.AppendUvarint(append(f.buf, byte(p.Encoding)), uint64(p.Size))
		}
		if f.rest -= int64(len(p.Data)); f.rest < 0 {
			return errParts
		}
		if err := f.flush(p.Data); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the file, if all objects are in it. It does not close what the file is written to.
func (f *FileWriter) Close() error {
	if f.rest != 0 {
		return errParts
	}
	if f.verify != nil {
		if err := f.verify.complete(); err != nil {
			return err
		}
	}
	f.buf = binary.AppendUvarint(append(f.buf, fileEnd), f.count)
	return errors.Join(f.flush(nil), f.z.Close())
}

// A FileReader reads a file with a checkpoint. It compares nothing with hashes: the [Receiver] does.
type FileReader struct {
	ID       ID
	Manifest []byte

	from  *watchedReader
	z     *zstd.Decoder
	r     *bufio.Reader
	count uint64
	rest  int64
	buf   []byte
	ended bool
}

// NewFileReader reads the beginning of a file. What is no such file is [ErrNoFile].
func NewFileReader(r io.Reader) (*FileReader, error) {
	from := &watchedReader{r: r}
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8*fileWindow))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoFile, err)
	}
	f := &FileReader{from: from, z: z, r: bufio.NewReaderSize(z, 64<<10), buf: make([]byte, PartSize)}
	if err := f.begin(); err != nil {
		z.Close()
		return nil, err
	}
	return f, nil
}

// Close frees what the reader uses. It does not close what the file is read from.
func (f *FileReader) Close() { f.z.Close() }

func (f *FileReader) begin() error {
	start := make([]byte, len(fileHeader)+2*len(Hash{}))
	if _, err := io.ReadFull(f.r, start); err != nil || string(start[:len(fileHeader)]) != fileHeader {
		if f.from.err != nil {
			return f.from.err
		}
		return ErrNoFile
	}
	id, err := ParseID(string(start[len(fileHeader):]))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	size, err := f.number(MaxManifest)
	if err != nil {
		return err
	}
	f.ID, f.Manifest = id, make([]byte, size)
	_, err = io.ReadFull(f.r, f.Manifest)
	return f.damage(err)
}

// damage returns the error of a file that cannot be read to its end: that of reading it, if there was one.
func (f *FileReader) damage(err error) error {
	switch {
	case err == nil:
		return nil
	case f.from.err != nil:
		return f.from.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: its file is cut off: %w", ErrCorrupt, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%w: its file: %w", ErrCorrupt, err)
}

// A watchedReader keeps the error of a reader.
type watchedReader struct {
	r   io.Reader
	err error
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

func (f *FileReader) number(limit uint64) (uint64, error) {
	n, err := binary.ReadUvarint(f.r)
	if err == nil && n > limit {
		err = fmt.Errorf("%w: its file has a length of %d", ErrCorrupt, n)
	}
	return n, f.damage(err)
}

// Next returns some parts, which are valid until the next call, and [io.EOF] after the last one. A file that is cut
// off or damaged is [ErrCorrupt].
func (f *FileReader) Next() (parts []Part, err error) {
	for free := f.buf; len(free) > 0 && len(parts) < MaxParts && !f.ended; {
		var p Part
		if f.rest == 0 {
			mark, err := f.r.ReadByte()
			if err != nil {
				return nil, f.damage(err)
			}
			if mark == fileEnd {
				f.ended = true
				break
			}
			if p, err = f.object(mark); err != nil {
				return nil, err
			}
		}
		p.Data = free[:min(f.rest, int64(len(free)))]
		if _, err := io.ReadFull(f.r, p.Data); err != nil {
			return nil, f.damage(err)
		}
		free, f.rest = free[len(p.Data):], f.rest-int64(len(p.Data))
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, f.end()
	}
	return parts, nil
}

func (f *FileReader) object(mark byte) (p Part, err error) {
	var head [len(Hash{}) + 1]byte
	if mark != fileObject {
		return p, fmt.Errorf("%w: its file has something that is no object", ErrCorrupt)
	}
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return p, f.damage(err)
	}
	size, err := f.number(1<<63 - 1)
	f.rest = int64(size)
	f.count++
	return Part{First: true, Object: Hash(head[:len(Hash{})]), Encoding: Encoding(head[len(Hash{})]), Size: f.rest}, err
}

// end returns io.EOF if the file has ended as it should.
func (f *FileReader) end() error {
	count, err := f.number(1<<63 - 1)
	if err != nil {
		return err
	}
	if count != f.count {
		return fmt.Errorf("%w: its file has %d objects, and not %d", ErrCorrupt, f.count, count)
	}
	switch _, err := f.r.ReadByte(); err {
	case io.EOF:
		return io.EOF
	case nil:
		return fmt.Errorf("%w: its file goes on behind its end", ErrCorrupt)
	default:
		return f.damage(err)
	}
}
