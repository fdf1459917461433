package gateway

// What tests of other packages see.
var (
	LauncherID = launcherID
	NameOf     = nameOf
)
