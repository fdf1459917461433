package fsops

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// etagBytes is how much of a digest an etag keeps: enough that two states
// never share one by accident.
const etagBytes = 16

// digest condenses the numbers into a short text.
func digest(numbers ...int64) string {
	buf := make([]byte, 0, 64)
	for _, n := range numbers {
		buf = binary.BigEndian.AppendUint64(buf, uint64(n))
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:etagBytes])
}
