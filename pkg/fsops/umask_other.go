//go:build !unix

package fsops

import "io/fs"

// umask says that there is none.
func umask() fs.FileMode { return 0 }
