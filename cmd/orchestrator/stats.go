package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func statsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stats ID",
		Short: "Show what a sandbox uses: processor, memory, processes, disk",
		Long: `Stats shows what the container of a sandbox uses, and may use. It does not end the
idle time of the sandbox.

The memory includes the page cache. The working set leaves out the file pages that
were not used of late, which the kernel drops first; it is what the kubelet counts.
The disk is the file system with the workdir, which others may use, too. Without a
container, only the disk is known.`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.stats(cmd.Context(), sandbox)
			})
		},
	}
}

func (a *app) stats(ctx context.Context, sandbox *launcher.Sandbox) error {
	s, err := sandbox.Stats(ctx)
	if err != nil {
		return err
	}
	if a.json() {
		return render.JSON(a.out, newStats(s))
	}
	return a.printText(statsText(s))
}

// statsText describes stats for people.
func statsText(s podapi.Stats) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "cpu time:      %s\n", cpuText(s))
	fmt.Fprintf(&text, "cpu limit:     %s\n", limitText(s.CPULimit, s.CPU != nil, func(n float64) string {
		return strconv.FormatFloat(n, 'g', -1, 64) + " processors"
	}))
	fmt.Fprintf(&text, "memory:        %s\n", known(s.Memory, bytesText))
	fmt.Fprintf(&text, "working set:   %s\n", known(s.MemoryWorkingSet, bytesText))
	fmt.Fprintf(&text, "memory peak:   %s\n", known(s.MemoryPeak, bytesText))
	fmt.Fprintf(&text, "memory limit:  %s\n", limitText(s.MemoryLimit, s.Memory != nil, bytesText))
	fmt.Fprintf(&text, "pids:          %s\n", known(s.PIDs, decimal))
	fmt.Fprintf(&text, "pids limit:    %s\n", limitText(s.PIDsLimit, s.PIDs != nil, decimal))
	fmt.Fprintf(&text, "disk:          %s of %s used, %s available\n", known(s.DiskUsed, bytesText), known(s.DiskSize, bytesText), known(s.DiskAvailable, bytesText))
	fmt.Fprintf(&text, "inodes:        %s of %s used\n", known(s.InodesUsed, decimal), known(s.Inodes, decimal))
	return text.Bytes()
}

func cpuText(s podapi.Stats) string {
	text := known(s.CPU, func(d time.Duration) string { return d.Round(time.Millisecond).String() })
	if s.CPUThrottled != nil && *s.CPUThrottled > 0 {
		text += fmt.Sprintf(" (throttled for %v)", s.CPUThrottled.Round(time.Millisecond))
	}
	return text
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// known returns the text of a number, if it is known.
func known[N any](n *N, text func(N) string) string {
	if n == nil {
		return "unknown"
	}
	return text(*n)
}

// limitText returns the text of a limit. There is none if what it limits is known alone.
func limitText[N any](limit *N, used bool, text func(N) string) string {
	if limit == nil && used {
		return "none"
	}
	return known(limit, text)
}

// stats are the numbers as JSON. What is not known is absent.
type stats struct {
	Time          time.Time `json:"time"`
	CPU           *int64    `json:"cpu_ms,omitempty"`
	CPUThrottled  *int64    `json:"cpu_throttled_ms,omitempty"`
	CPULimit      *float64  `json:"cpu_limit_cores,omitempty"`
	Memory        *int64    `json:"memory_bytes,omitempty"`
	WorkingSet    *int64    `json:"memory_working_set_bytes,omitempty"`
	MemoryPeak    *int64    `json:"memory_peak_bytes,omitempty"`
	MemoryLimit   *int64    `json:"memory_limit_bytes,omitempty"`
	PIDs          *int64    `json:"pids,omitempty"`
	PIDsLimit     *int64    `json:"pids_limit,omitempty"`
	DiskSize      *int64    `json:"disk_size_bytes,omitempty"`
	DiskUsed      *int64    `json:"disk_used_bytes,omitempty"`
	DiskAvailable *int64    `json:"disk_available_bytes,omitempty"`
	Inodes        *int64    `json:"inodes,omitempty"`
	InodesUsed    *int64    `json:"inodes_used,omitempty"`
}

func newStats(s podapi.Stats) stats {
	return stats{
		s.Time.UTC(), milliseconds(s.CPU), milliseconds(s.CPUThrottled), s.CPULimit,
		s.Memory, s.MemoryWorkingSet, s.MemoryPeak, s.MemoryLimit, s.PIDs, s.PIDsLimit,
		s.DiskSize, s.DiskUsed, s.DiskAvailable, s.Inodes, s.InodesUsed,
	}
}

func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.Milliseconds())
}
