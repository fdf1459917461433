package wire

import "runtime/debug"

// version is set by the linker (see the Makefile).
var version string

// Version returns the version of the program: the one set by the linker, else the
// module's from Go, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
