//go:build linux && race

package launcher_test

// playRole plays no role: an ordinary user cannot run the agent that the race detector
// watches.
func playRole() bool { return false }
