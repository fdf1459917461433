//go:build race

package launchertest

// raced says whether the race detector is on.
const raced = true
