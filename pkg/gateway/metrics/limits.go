package metrics

import "time"

const (
	// labelValues bounds the operations, and the classes. The gateway has about 100 and 70: more can
	// only come of a mistake.
	labelValues = 256
	// labelLength bounds them as well.
	labelLength = 64
	// scrapesInFlight and scrapeTime bound what those who scrape can cost.
	scrapesInFlight = 4
	scrapeTime      = 30 * time.Second
)

var (
	// callBuckets reach from a file's stat to a command of some minutes.
	callBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	// launchBuckets reach from a warm pod to a new node.
	launchBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320}
)
