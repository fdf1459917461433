package cgroup

const (
	// noLimit is above every limit that means something. Version 1 of control
	// groups has a number of pages near 2^63 for none.
	noLimit = int64(1) << 62
	// eventsSize is enough for a file of a control group with a few numbers, and
	// memoryStatSize for one with statistics, both in bytes.
	eventsSize     = 512
	memoryStatSize = 8 << 10
)
