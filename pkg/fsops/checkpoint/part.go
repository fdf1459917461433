package checkpoint

import "github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"

// A Part is an object as stores have it, or a part of one. The parts of an object follow one another.
type Part struct {
	// First says that an object begins. Only then are there Object, Size and Encoding.
	First  bool
	Object Hash
	// Size is how many bytes the parts of the object have together.
	Size     int64
	Encoding Encoding
	Data     []byte
}

// An Encoding says how the bytes of an object are encoded.
type Encoding = object.Encoding

// The encodings of objects.
const (
	Raw = object.Raw // as they are
	S2  = object.S2  // https://pkg.go.dev/github.com/klauspost/compress/s2, a block
)

// PartSize is how many bytes of data one part has at most, and together those parts that Send gives at once.
// There are up to MaxParts of these.
const (
	PartSize = 512 << 10
	MaxParts = 2048
)

// MaxManifest is how many bytes the manifest of a checkpoint has at most.
const MaxManifest = 4 << 20

// Bounds on what a [Receiver] asks for.
const (
	// MaxWant is how many objects it asks for at once, and maxWanted how many may be under way: their
	// hashes fit into what a connection holds, and their content keeps it busy.
	MaxWant   = 4096
	maxWanted = 2 * MaxWant
)
