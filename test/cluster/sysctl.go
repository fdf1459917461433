package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// These kernel parameters are set by every kubelet for its whole machine. The last
// cluster to go down restores them. One of them makes the machine restart ten
// seconds after a panic.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// sysctlPath returns the file of a parameter.
func sysctlPath(name string) string { return filepath.Join("/proc/sys", name) }

// savedSysctls is the file with their former values, for all clusters of the
// machine. Like the parameters themselves, it does not survive a boot.
const savedSysctls = runBase + "/sysctls.json"

// saveSysctls saves the parameters before the machine's first kubelet starts.
func saveSysctls(ctx context.Context) error {
	unlock, err := lockFile(ctx, machineLock)
	if err != nil {
		return err
	}
	defer unlock()
	if exists(savedSysctls) {
		return nil
	}
	values := map[string][]byte{}
	for _, name := range sysctls {
		value, err := os.ReadFile(sysctlPath(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // this kernel does not have it
		}
		if err != nil {
			return err
		}
		values[name] = value
	}
	return writeJSON(savedSysctls, values)
}

// restoreSysctls restores the parameters once no cluster is up any more.
func restoreSysctls(ctx context.Context) error {
	unlock, err := lockFile(ctx, machineLock)
	if err != nil {
		return err
	}
	defer unlock()
	data, err := os.ReadFile(savedSysctls)
	if errors.Is(err, fs.ErrNotExist) || anyUp() {
		return nil
	}
	values := map[string][]byte{}
	if err == nil {
		err = json.Unmarshal(data, &values)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", savedSysctls, err)
	}
	var errs []error
	for _, name := range sysctls {
		if now, err := os.ReadFile(sysctlPath(name)); err == nil && values[name] != nil && string(now) != string(values[name]) {
			errs = append(errs, os.WriteFile(sysctlPath(name), values[name], 0o644))
		}
	}
	return errors.Join(append(errs, os.Remove(savedSysctls))...)
}

// anyUp reports whether any cluster of the machine is up, that is, has a runtime
// directory.
func anyUp() bool {
	entries, _ := os.ReadDir(runBase)
	for _, entry := range entries {
		if entry.IsDir() {
			return true
		}
	}
	return false
}
