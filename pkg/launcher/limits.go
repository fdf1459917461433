package launcher

import (
	"math"
	"time"
)

// The bounds that users notice first, each with its reason. Those below keep single steps
// from waiting for ever, and single values from being too large.
const (
	// schedulePatience is how long no node may be able to hold a pod before that is
	// an error: an autoscaler announces within it that it will add a node, and people
	// should not wait longer to hear of a bad request.
	schedulePatience = 8 * time.Second
	// callTimeout bounds each call of the API, watches included, which then
	// begin anew: an API server that stays silent counts as unavailable.
	callTimeout = 30 * time.Second
	// cleanupTimeout bounds the cleanup after the caller's context has ended,
	// or without one: a pod's grace, the API's answers, and a kubelet that has much
	// to do, which takes half a minute to remove a pod.
	cleanupTimeout = time.Minute
	// apiRate is a launcher's calls a second to the API server, unless Kubernetes.APIRate or the
	// Config says otherwise, and twice as many at once: some calls for each of some hundred
	// sandboxes that start or end together. maxAPIRate is more than an API server answers.
	apiRate    = 500
	maxAPIRate = 100_000
	// leaseDuration is how long an exclusive owner that died keeps others out. An
	// owner renews its lease every leasePeriod, in tries of at most leaseTry. If it
	// fails for leaseDeadline, it gives up. The time until another may take the lease
	// allows for differing clocks.
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
	// answerTimeout bounds the first answer of an agent that listens. It normally
	// takes a millisecond; an agent that takes this long is stopped or starved. That of a
	// pod gets as much more each time that this was too short. It is under wire.DialTimeout, so that
	// the local launcher begins no second attempt.
	answerTimeout = 10 * time.Second
	// connectTries is how often a connection is tried when the agent is just
	// ending. Its successor may end, too, so one retry is not enough.
	connectTries = 3
	// stopTimeout bounds the agent's graceful end: its own grace for processes and
	// calls, and a margin.
	stopTimeout = 10 * time.Second
	// stopPoll is how often the context is checked while an agent ends: quickly for a
	// person. The end itself is noticed at once.
	stopPoll = 100 * time.Millisecond
	// localMemoryShare is how much of the machine's memory an isolated sandbox may take if nobody says: a large
	// build, while the machine still answers to its user.
	localMemoryShare = 0.75
	// leftoverScans bounds the scans for leftovers: a killed process cannot start
	// others, so a few scans are enough.
	leftoverScans = 16
	// doubtScans and doubtTimeout bound the scans for processes that may be another sandbox's, and the waits for their
	// ends, so that nobody keeps a sandbox from being ended: a few, since they may start others, too.
	doubtScans   = 4
	doubtTimeout = 2 * time.Second
	// leftoverWaits bounds the descriptors of killed processes at once.
	leftoverWaits = 256
)

// The bounds of sandboxes in pods, each with its reason.
const (
	// podGrace is the time between TERM and KILL: the agent's own 5 s for its
	// processes and calls, and a margin.
	podGrace = 8 * time.Second
	// pullPatience is how long the image may be missing after a failed pull: nodes
	// try again after ten seconds, and the commonest reason is a mistyped name.
	pullPatience = 5 * time.Second
	// crashQuick is how soon after its start a container ends if it cannot run.
	crashQuick = 5 * time.Second
	// addressTimeout bounds one try to connect to a pod's address. This takes less
	// than a millisecond, or a second or two if a packet is lost. If a policy drops
	// all packets, the error comes after this time.
	addressTimeout = 5 * time.Second
	// otherAgentPatience is how long another agent than the pod's may answer before
	// that is an error. An agent that restarts between two looks at its key has a new
	// one, and an address may belong to another pod for as long as its node takes to
	// report the change.
	otherAgentPatience = 5 * time.Second
	// firstRetry and lastRetry bound the time between tries to connect, which
	// grows by half: a starting agent takes tens of milliseconds, an API
	// server that restarts takes seconds. Until the container runs, the first retry comes after
	// a share (1/paceShare) of the time that the pod's network took, and if more than fewStarts
	// pods are awaited at once, after as long as that, at most manyRetry.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
	paceShare  = 8
	fewStarts  = 8
	manyRetry  = 3 * time.Second
	// refusalPatience is how long a permission that was there before may be missing:
	// an API server that has just started answers some seconds before it knows all
	// permissions.
	refusalPatience = 6 * time.Second
	// apiRetry is the time between tries to watch while the API server is
	// away.
	apiRetry = 500 * time.Millisecond
	// holdingPatience is how long a launch may take from the holding to the pod that it takes
	// out of a pool: the agent's warmPatience, and three calls of the API. If it was killed,
	// others wait for that long, and look every holdingPoll.
	holdingPatience = 15 * time.Second
	holdingPoll     = 20 * time.Millisecond
	// warmPatience is how long the agent of a pod out of a pool, which runs, may take to
	// answer. A launch tries warmTries such pods before it makes one.
	warmPatience = 10 * time.Second
	warmTries    = 3
	// silentTime is how long a pod of a pool is left alone whose agent did not answer.
	silentTime = time.Minute
	// maxKept bounds the connections that a host keeps to pods of a pool. Each is asked every
	// keepCheck, so that it does not end for lack of calls, and before it is used, and has
	// keepPatience to answer. While launches take connections, and half of them are left, no
	// other is made for keepPause.
	maxKept      = 64
	keepCheck    = 30 * time.Second
	keepPatience = 5 * time.Second
	keepPause    = time.Second
	// saysEvery is after how many heartbeats in a Lease a pod says itself that it is needed, but
	// saysAfter at the latest, unless heartbeats are rarer: reapers of versions that know only what
	// pods say wait for DefaultStaleAfter. It also does after missedBeats without one. sayAtOnce
	// pods do so at a time.
	saysEvery   = 10
	saysAfter   = 10 * time.Minute
	missedBeats = 2
	sayAtOnce   = 32
	// maxBeats bounds the pods of one Lease, whose annotations take 256 KiB, and beatTries the tries
	// to write it if somebody else does. beatPage is how many such Leases are read at once, and
	// beatAge how old their content may be when a reaper deletes a pod. leftBeats is the age at
	// which the Lease of a launcher that was killed is removed: few reapers look so far back.
	maxBeats  = 5000
	beatTries = 3
	beatPage  = 16
	beatAge   = 2 * time.Second
	leftBeats = 7 * 24 * time.Hour
	// createGrace is how long a pod's creation may go on after the caller's context
	// has ended: it is completed, and then undone.
	createGrace = 10 * time.Second
	// claimPoll is how often, at the least, a claim that is being deleted is checked. Its deletion
	// takes some milliseconds once no pod uses it.
	claimPoll = 50 * time.Millisecond
	// noteSkew is how far this machine's clock may be from the API server's until a claim
	// costs another call when it is made. It is also for how long the note of a claim
	// could stand for one of the same name: a minute would do for most clocks.
	noteSkew = time.Minute
	// floorAhead is how far in the future the floor of a claim's note may be: clocks differ,
	// but a user who may write Leases must not use up all times that a note can have.
	floorAhead = 24 * time.Hour
	// maxLabels bounds the host's labels of a sandbox. With the longest names and values they take
	// 25 KiB, and a list has those of all sandboxes.
	maxLabels = 64
	// maxAnnotations bounds the caller's annotations in bytes: Kubernetes
	// takes 256 KiB in all.
	maxAnnotations = 128 << 10
	// maxNotes bounds what a Spec takes in annotations of a pod or its claim. The
	// rest is for the id, for times, and for what controllers write.
	maxNotes = 240 << 10
	// maxPodEnv bounds the environment of commands in bytes. In base64, which takes a
	// third more, it is one variable, and Linux limits those to 128 KiB.
	maxPodEnv = 90 << 10
	// maxPodProtected bounds the patterns of protected paths in bytes, maxPodMain the
	// command beside the agent, and maxReadOnly and maxVolumes the directories and
	// volumes: all are part of a pod's specification, which etcd limits to some 1.5
	// MiB.
	maxPodProtected = 64 << 10
	maxPodMain      = 64 << 10
	maxReadOnly     = 64
	maxVolumes      = 64
	// maxPatch bounds the patch of a pod in bytes. It is in an annotation, too.
	maxPatch = 64 << 10
	// maxActiveDeadline is Kubernetes' maximum, in seconds.
	maxActiveDeadline = math.MaxInt32 * time.Second
	// overdueTime is how long a sandbox may outlive its Expires until others end it: its agent takes
	// seconds, and clocks differ. filesStay is how long kept files outlive it, so that whoever finds
	// in the morning what has ended in the night can still resume it.
	overdueTime = time.Minute
	filesStay   = 24 * time.Hour
	// minLife is what a launch and a first call take on a slow node. It keeps a wrong
	// unit from making a sandbox that ends before it is used.
	minLife = 5 * time.Second
	// minHeartbeat keeps a wrong unit from flooding the API server.
	minHeartbeat = time.Second
	// maxVersions bounds the keys that an identity has at a time, and so those that each
	// agent accepts: two while one is rotated, and room for rotations that were left undone.
	maxVersions = 4
	// ringAge is how old the knowledge of an identity's keys may be when a pod is made or a
	// note signed, and retryAge when an unknown key is met. settleTime is the time after
	// which all orchestrators have noticed that a key is retiring: their knowledge is that
	// old at most, and a call of the API that uses it takes callTimeout at most.
	// startPatience is how long a retirement waits for agents that are starting, and
	// tellTries how often it tries if others change the same pod. shownElsewhere is how many
	// sandboxes an error names that need the key in other namespaces.
	ringAge       = 10 * time.Second
	retryAge      = time.Second
	settleTime    = ringAge + callTimeout
	startPatience = time.Minute
	tellTries     = 20

	shownElsewhere = 3
	// leaseRetry is the time between tries to renew the lease while the API server is
	// away.
	leaseRetry = 2 * time.Second
	// queryTimeout bounds a question for the agent of a pod that a person asks. In that
	// time it is tried three times: a connection may be lost by accident.
	queryTimeout = 5 * time.Second
	queryTry     = queryTimeout / 3
	// tellTime bounds how long an agent is told what its pod says already. Nobody would tell it
	// later, and it may be on a loaded node.
	tellTime = 30 * time.Second
	// reapAtOnce bounds how many pods are reaped at once, askAtOnce how many agents are asked, and
	// reapPatience how long each may be silent before it counts as idle: one on a loaded node
	// may be at work.
	reapAtOnce   = 64
	askAtOnce    = 16
	reapPatience = 30 * time.Second
	// lateQuery bounds the question of what a pod waits for, which is asked after the
	// caller's deadline.
	lateQuery = time.Second
	// annotateTries is how often a heartbeat is written while others change the pod: the API server
	// has tried as often by then.
	annotateTries = 3
	// forksAtOnce is how many sandboxes of a Fork are made at once: each passes what it lacks of the checkpoint
	// through this process.
	forksAtOnce = 4
	// reapTries is how often a deletion is tried while the pod's status changes:
	// nodes rarely report.
	reapTries = 5
	// endIsRecent is how long ago, by a node's clock, a container may have ended to
	// explain why an agent was lost: the loss is noticed within a minute, a new
	// connection is tried for two, and clocks differ.
	endIsRecent = 5 * time.Minute
	// maxSignal is Linux's last signal.
	maxSignal = 64
	// maxNodes is how many nodes are asked whether they support user namespaces: each
	// takes some 20 KB. In a larger cluster it counts as unknown.
	maxNodes = 100
	// maxEvents is how many events of a pod are kept, and read at a time, and shownEvents how many an
	// error shows: the latest ones, which are the most relevant. maxEventPages bounds how many are read: the
	// cluster keeps those of an hour, and merges those that are alike.
	maxEvents     = 100
	shownEvents   = 5
	maxEventPages = 10
)
