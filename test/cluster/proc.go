package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// process identifies a process among all that ever ran on the machine. Pids are
// reused, but not with the same start time in the same boot.
type process struct {
	PID int `json:"pid"`
	// Start is the start time in clock ticks since the boot (field 22 of
	// /proc/PID/stat), and Boot the boot's id.
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// identify finds the process that has a pid now. A zombie has ended, unless some of
// its threads are still running: they keep its sockets open.
func identify(pid int) (process, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	stat, err := parseStat(string(line))
	if err != nil {
		return process{}, fmt.Errorf("cannot read the state of process %d: %w", pid, err)
	}
	if stat.state == "X" || stat.state == "Z" && stat.threads <= 1 {
		return process{}, fmt.Errorf("process %d has ended", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return process{PID: pid, Start: stat.start, Boot: strings.TrimSpace(string(boot))}, err
}

// stat has the used fields of /proc/PID/stat: 3, 20 and 22.
type stat struct {
	state   string
	threads int
	start   uint64
}

// parseStat parses a line of /proc/PID/stat. Its second field, the program's name,
// may contain spaces and parentheses.
func parseStat(line string) (stat, error) {
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	if end < 0 || len(fields) < 20 {
		return stat{}, errors.New("it has too few fields")
	}
	threads, errThreads := strconv.Atoi(fields[17])
	start, errStart := strconv.ParseUint(fields[19], 10, 64)
	return stat{state: fields[0], threads: threads, start: start}, errors.Join(errThreads, errStart)
}

// alive reports whether exactly this process still runs.
func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	now, err := identify(p.PID)
	return err == nil && now == p
}

// commandLine returns the arguments of a process, or none if it has ended.
func commandLine(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}

// allPIDs lists the processes of the machine.
func allPIDs() []int {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	pids := make([]int, 0, len(entries))
	for _, entry := range entries {
		if pid, err := strconv.Atoi(filepath.Base(entry)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// marker is a variable with the cluster's directory. Every process that is started
// for a cluster has it and passes it on. It identifies containerd's shims, and
// processes that a killed start did not record.
const marker = "PODAGENT_CLUSTER_OWNER="

// marked lists the processes with the marker of a cluster's directory.
func marked(dir string) []process {
	want := []byte(marker + dir)
	var found []process
	for _, pid := range allPIDs() {
		p, err := identify(pid)
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && hasEntry(environ, want) && p.alive() {
			found = append(found, p)
		}
	}
	return found
}

// hasEntry reports whether a NUL-separated list has an entry.
func hasEntry(list, want []byte) bool {
	for entry := range bytes.SplitSeq(list, []byte{0}) {
		if bytes.Equal(entry, want) {
			return true
		}
	}
	return false
}
