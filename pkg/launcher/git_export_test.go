package launcher

// What the tests of Git call, which are in a package of their own because
// launchertest imports this one.
var (
	CheckOut    = (*Git).checkout
	ValidateGit = (*Git).validate
	GitValidRef = validRef
)
