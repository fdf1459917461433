package tree

import "github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"

// Read reads the object of a directory. One that is missing or damaged is [object.ErrCorrupt].
func Read(o *object.Store, h object.Hash) (Entries, error) {
	c := o.Coder()
	defer o.Release(c)
	text, err := o.ReadDir(c, h)
	if err != nil {
		return nil, err
	}
	return Decode(text)
}
