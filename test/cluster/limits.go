package main

import "time"

// The bounds, each with its reason. Times are for two busy cores.
const (
	// buildTimeout bounds the build of the programs: five minutes with an empty
	// build cache, after the download of the modules.
	buildTimeout = 40 * time.Minute
	// installTimeout bounds apt-get, which downloads some 60 MB.
	installTimeout = 10 * time.Minute
	// upTimeout bounds a start, without the build. It takes 8 s.
	upTimeout = 8 * time.Minute
	// startTimeout bounds the start of one program; the API server, the
	// slowest, takes 4 s.
	startTimeout = 4 * time.Minute
	// unhealthyGrace is how long a running program may be unhealthy before it
	// counts as hung and is restarted.
	unhealthyGrace = 20 * time.Second
	// stopGrace is the time between SIGTERM and SIGKILL. All programs end within 2
	// s, except for the API server, which waits for its watches.
	stopGrace = 5 * time.Second
	// killTimeout bounds the end after SIGKILL, which only a process in
	// uninterruptible sleep delays.
	killTimeout = time.Minute
	// lockTimeout bounds the wait for another call on the same directory,
	// which may be building.
	lockTimeout = buildTimeout + upTimeout
	// commandTimeout bounds one call of ip, iptables or a quick ctr.
	commandTimeout = 2 * time.Minute
	// importTimeout bounds the import of one image archive of some gigabytes.
	importTimeout = 5 * time.Minute
	// requestTimeout bounds one request to the API server or for a program's
	// health.
	requestTimeout = 5 * time.Second
	// reportEvery is how often a long step reports its progress: often enough to
	// show that it goes on, without flooding the output.
	reportEvery = 15 * time.Second
	// poll is how often to check a state that nothing announces.
	poll = 50 * time.Millisecond

	// slots bounds the clusters on one machine: there are this many subnets of 1024
	// addresses that begin with 10.244, and more than enough ports between
	// firstPort and the ephemeral ones (32768).
	slots = 32
	// firstPort is the first port of slot 0. It is below the ephemeral range, so
	// that no outgoing connection of the machine ever uses the port of a cluster.
	firstPort = 24400
	// portsPerSlot is more than a cluster uses.
	portsPerSlot = 16
	// maxPods is the kubelet's limit. The subnet has addresses for four times as
	// many pods, so that freed addresses are not reused at once.
	maxPods = 250
	// podPidsLimit protects the machine from a fork bomb in a pod. It is enough for
	// a thousand parallel commands beside thousands of orphans.
	podPidsLimit = 2048
	// volumeStatsPeriod is how often the kubelet measures volumes, after which it
	// evicts pods. The default is a minute, which is too long for tests.
	volumeStatsPeriod = 5 * time.Second
	// maxSocketPath is the longest path of a unix socket (sun_path without its
	// NUL).
	maxSocketPath = 107
	// certificateLife outlives any test cluster: down makes new ones.
	certificateLife = 10 * 365 * 24 * time.Hour
	// maxLog is the size at which a log is set aside when its program starts
	// again. One older log is kept.
	maxLog = 16 << 20
	// logTail is how much of a program's log an error shows, in bytes.
	logTail = 2 << 10
	// maxManifest bounds the JSON files read from an image archive.
	maxManifest = 4 << 20
	// maxAnswer bounds how much of the API server's answer is read.
	maxAnswer = 16 << 20
)
