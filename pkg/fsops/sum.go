package fsops

import "hash/crc32"

// castagnoli is the polynomial of every checksum in this package and on the wire
// (CRC32C): processors have an instruction for it. Its table is made when it is
// first needed, since many programs that import the package never need it.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Sum is the size and checksum of a content. It shows the receiver that the content
// is whole.
type Sum struct {
	// Size in bytes.
	Size int64
	// CRC32C is the checksum with the polynomial of Castagnoli.
	CRC32C uint32
}

// Add takes the next bytes of the content into account.
func (s *Sum) Add(data []byte) {
	s.Size += int64(len(data))
	s.CRC32C = crc32.Update(s.CRC32C, castagnoli(), data)
}

// Check returns [ErrChecksum] if s is not the sum that was announced.
func (s Sum) Check(announced Sum) error {
	if s != announced {
		return ErrChecksum
	}
	return nil
}

// SumOf returns the sum of data.
func SumOf(data []byte) Sum {
	return Sum{Size: int64(len(data)), CRC32C: crc32.Checksum(data, castagnoli())}
}
