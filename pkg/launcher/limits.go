package launcher

import (
	"math"
	"time"
)

// The bounds that users notice first, each with its reason. Those below keep single steps
// from waiting for ever, and single values from being too large.
const (
	// schedulePatience is how long no node may be able to hold a pod before
	// that is an error: an autoscaler says within it that it will make one, and
	// people do not wait longer to be told of a bad request.
	schedulePatience = 8 * time.Second
	// callTimeout bounds each call of the API, watches included, which are
	// then begun anew: an API server that says nothing is none.
	callTimeout = 30 * time.Second
	// cleanupTimeout bounds what is done when the caller's context has ended
	// or there is none: a pod's grace, and the API's answers.
	cleanupTimeout = 30 * time.Second
	// apiRate and apiBurst are calls a second to the API server, of one
	// launcher: some for each of some hundred sandboxes that start at once.
	apiRate  = 200
	apiBurst = 400
	// leaseDuration is how long an exclusive owner that died keeps others out. An
	// owner renews its lease every leasePeriod, by tries of at most leaseTry. One that
	// could not for leaseDeadline gives up, as long before another may take the lease
	// as clocks may differ.
	leaseDuration = 30 * time.Second
	leasePeriod   = 8 * time.Second
	leaseTry      = 5 * time.Second
	leaseDeadline = 20 * time.Second
)

// The bounds of the local launcher, each with its reason.
const (
	// startTimeout bounds the start of an agent, which takes some
	// milliseconds: long enough for a machine that swaps.
	startTimeout = 30 * time.Second
	// startPoll is how often a starting agent's socket is tried: about the
	// time that a start takes.
	startPoll = 2 * time.Millisecond
	// answerTimeout bounds the first answer of an agent that listens, which
	// takes a millisecond: one that takes so long is stopped, or starved. It is
	// under wire.DialTimeout, so that no second attempt begins.
	answerTimeout = 10 * time.Second
	// connectTries is how often a connection is begun anew when the agent
	// ends just then: once would do, if not for the one that follows it.
	connectTries = 3
	// stopTimeout bounds the agent's graceful end: its own grace for
	// processes and calls, and some.
	stopTimeout = 10 * time.Second
	// stopPoll is how often, while an agent ends, the context is looked at:
	// soon for a person. The end itself is noticed at once.
	stopPoll = 100 * time.Millisecond
	// leftoverScans bounds how often leftovers are looked for: one that is
	// killed cannot start another, so that a few are enough.
	leftoverScans = 16
	// lockPoll is how often a lock that another holds is tried.
	lockPoll = 10 * time.Millisecond
)

// The bounds of sandboxes in pods, each with its reason.
const (
	// podGrace is the time between TERM and KILL: the agent's own, 5 s for its
	// processes and calls, and some.
	podGrace = 8 * time.Second
	// startupPeriod is the kubelet's shortest. The agent serves within
	// milliseconds; startupFailures lets it take a minute on a node that swaps.
	startupPeriod   = 1
	startupFailures = 60
	// readinessPeriod and readinessFailures say within half a minute that an
	// agent hangs, at the price of a process each time.
	readinessPeriod   = 10
	readinessFailures = 3
	// probeTimeout is long enough for a pod whose processors are busy.
	probeTimeout = 5
	// pullPatience is how long after a failed pull the image may be missing:
	// nodes try again after ten seconds, and a slip in a name is the commonest
	// reason.
	pullPatience = 5 * time.Second
	// crashQuick is how soon after its start a container ends that cannot run.
	crashQuick = 5 * time.Second
	// addressTimeout bounds one try to connect to a pod's address, which takes
	// less than a millisecond, and the second or two of a packet that was lost.
	// Where a policy drops all packets, it is what it takes to say so.
	addressTimeout = 5 * time.Second
	// strangerPatience is how long another agent than the pod's may answer before
	// that is an error: one that starts again between two looks at its key has
	// another, and an address may be another pod's for as long as its node takes to
	// say that it is no longer this one's.
	strangerPatience = 5 * time.Second
	// firstRetry and lastRetry bound the time between tries to connect, which
	// grows by half: a starting agent takes tens of milliseconds, an API
	// server that restarts takes seconds.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
	// refusalPatience is how long a permission may be missing that was there
	// before: an API server that has just started answers some seconds before
	// it knows all permissions.
	refusalPatience = 6 * time.Second
	// apiRetry is the time between tries to watch while the API server is
	// away.
	apiRetry = 500 * time.Millisecond
	// createGrace is how long a pod's creation may go on when the caller's
	// context has ended: what is begun is finished, and then removed.
	createGrace = 10 * time.Second
	// claimPoll is how often a claim that is being deleted is looked at, which
	// takes some milliseconds once no pod has it.
	claimPoll = 50 * time.Millisecond
	// maxAnnotations bounds the caller's annotations in bytes: Kubernetes
	// takes 256 KiB in all.
	maxAnnotations = 128 << 10
	// maxNotes bounds what is noted of a Spec in annotations of a pod or of its claim.
	// What is left is for the id, for times, and for what controllers write.
	maxNotes = 240 << 10
	// maxPodEnv bounds the environment of commands in bytes: as base64, which
	// takes a third more, it is one variable, of which Linux takes 128 KiB.
	maxPodEnv = 90 << 10
	// maxPodProtected bounds the patterns of protected paths in bytes, maxPodMain
	// the command beside the agent, and maxReadOnly and maxVolumes the directories
	// and volumes: they are arguments and volumes in a pod's specification, which
	// etcd takes up to some 1.5 MiB of.
	maxPodProtected = 64 << 10
	maxPodMain      = 64 << 10
	maxReadOnly     = 64
	maxVolumes      = 64
	// maxPatch bounds the patch of a pod in bytes, which is in an annotation, too.
	maxPatch = 64 << 10
	// maxActiveDeadline is what Kubernetes takes, in seconds.
	maxActiveDeadline = math.MaxInt32 * time.Second
	// minLife is what a launch and a first call take on a slow node, so that a
	// slip of the unit is no sandbox that ends before it was used.
	minLife = 5 * time.Second
	// minHeartbeat keeps a slip of the unit from flooding the API server.
	minHeartbeat = time.Second
	// leaseRetry is the time between tries to renew it while the API server is
	// away.
	leaseRetry = 2 * time.Second
	// reapAtOnce bounds how many agents are asked at once, queryTimeout how long
	// each may take, and queryTries how often it is tried: one connection may be
	// lost by accident.
	reapAtOnce   = 16
	queryTimeout = 5 * time.Second
	queryTries   = 3
	// lateQuery is how long after the caller's deadline it is asked what a pod waits
	// for.
	lateQuery = time.Second
	// reapTries is how often a deletion is tried while the pod's status changes: a node
	// reports seldom.
	reapTries = 5
	// endIsRecent is how long ago, by a node's clock, a container may have ended
	// for it to be why an agent was lost: that it is gone is found out within a
	// minute, a new connection is sought for two, and clocks differ.
	endIsRecent = 5 * time.Minute
	// maxSignal is Linux's last signal.
	maxSignal = 64
	// maxEvents is how many events of a pod are looked at, shownEvents how
	// many of them an error has: the latest, for the first are older news.
	maxEvents   = 100
	shownEvents = 5
)

// checkoutGrace is what podagent has to remove its temporary files when ctx ends: more
// than the agent leaves a command that took too long.
const checkoutGrace = 2 * time.Second
