package harness

import "os"

// FullEnv, if it is set to anything, makes tests move their full sizes. Otherwise
// they move what [Size] returns.
const FullEnv = "PODAGENT_TEST_FULL"

// Size returns how many bytes a test moves whose full size is full. It is full if
// [FullEnv] is set; otherwise a quarter, which is still several times what windows
// and buffers hold, or an eighth under the race detector.
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
