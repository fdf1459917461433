package remote

import (
	"cmp"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// The bounds of calls, each with its reason.
const (
	// quickTime bounds a call that the gateway answers by a few calls of the API server, with the
	// time that a gateway takes to be replaced by another.
	quickTime = time.Minute
	// endTime bounds a call that waits until a pod is gone: its grace, and a kubelet that is busy.
	endTime = 5 * time.Minute
	// spareTime is how long a launch may take beyond the time until the agent answers: the
	// gateway's own, and the way to it.
	spareTime = 2 * time.Minute
	// wakeTime is how long a call may wait for its sandbox, which may have to be resumed or to start
	// first. A gateway waits for less, and then has its caller come again.
	wakeTime = launcher.DefaultReadyTimeout + spareTime
	// absentTime is how long a gateway may be out of reach: a replica that ends is out of the
	// balancer by then, and nobody wants to wait longer to hear that the URL is wrong.
	absentTime = 10 * time.Second
	// firstPause and lastPause are those between tries, the first and the longest, unless the
	// gateway says how long to wait.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	// answerLimit bounds an answer, in bytes: more than a page of sandboxes with all their
	// labels has. problemLimit bounds that of a refusal, and detailLimit its text.
	answerLimit  = 16 << 20
	problemLimit = 1 << 20
	detailLimit  = 4 << 10
	// pageLimit is how many sandboxes a page has at most: as many as a gateway gives.
	pageLimit = 1000
	// listLimit is more sandboxes than a tenant has.
	listLimit = 1 << 20
	// maxSeconds is longer than anybody waits.
	maxSeconds = 1 << 20
	// headerLimit bounds the header of an answer, in bytes.
	headerLimit = 64 << 10
	// tokenLimit is more than a service account's token has, in bytes.
	tokenLimit = 16 << 10
)

// launchTime returns how long a launch may take in all.
func launchTime(spec *launcher.Spec) time.Duration {
	limit := cmp.Or(spec.Take.ReadyTimeout, launcher.DefaultReadyTimeout+spareTime)
	if spec.Git != nil {
		limit += launcher.DefaultGitTimeout
	}
	return limit
}
