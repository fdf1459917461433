//go:build race

package harness

// raceDetector says that each byte costs about ten times as much.
const raceDetector = true
