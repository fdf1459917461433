package harness

import "os"

// FullEnv has tests move all that they are to move, if it is set to anything.
// Without it [Size] says how much they move.
const FullEnv = "PODAGENT_TEST_FULL"

// Size returns how much a test moves that is to move full bytes: all of it if
// [FullEnv] is set; else a quarter, which is still some times what windows and
// buffers hold, and an eighth under the race detector.
func Size(full int64) int64 {
	switch {
	case os.Getenv(FullEnv) != "":
		return full
	case raceDetector:
		return full / 8
	default:
		return full / 4
	}
}
