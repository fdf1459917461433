package agent

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// environment returns the environment of a process: the agent's own, the variables of
// Configure, and those of the request; with clear only the last. A sandbox's own TERM=dumb
// is for processes without a terminal. The result is shared: nobody may change it.
func (a *Agent) environment(add []string, clear, terminal bool) ([]string, error) {
	if err := checkEnv(add); err != nil {
		return nil, err
	}
	if clear {
		return mergeEnv(add, a.markers()), nil
	}
	a.mu.Lock()
	env := a.env
	a.mu.Unlock()
	if terminal {
		env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return v == "TERM=dumb" })
	}
	if len(add) == 0 {
		return env, nil
	}
	return mergeEnv(env, add, a.markers()), nil
}

// setEnv sets what processes get on top of the agent's own environment, which is
// merged here, once, and not for each of them. The caller holds the lock, if others
// know the agent yet.
func (a *Agent) setEnv(env []string) {
	a.env = mergeEnv(a.config.Env, env, a.markers())
}

// SandboxMarker begins the variable by which a launcher finds the processes of
// a sandbox whose agent has died. Every process gets it.
const SandboxMarker = "PODAGENT_SANDBOX="

// markers returns the marker that the agent was started with, if any.
func (a *Agent) markers() []string {
	for _, v := range a.config.Env {
		if strings.HasPrefix(v, SandboxMarker) {
			return []string{v}
		}
	}
	return nil
}

// checkEnv refuses an entry that is not NAME=VALUE.
func checkEnv(env []string) error {
	for _, v := range env {
		if i := strings.IndexByte(v, '='); i <= 0 || strings.IndexByte(v, 0) >= 0 {
			return fmt.Errorf("environment %q is not NAME=VALUE: %w", v, syscall.EINVAL)
		}
	}
	return nil
}

// mergeEnv joins environments; a later value of a name wins.
func mergeEnv(envs ...[]string) []string {
	last := map[string]string{}
	for _, env := range envs {
		for _, v := range env {
			name, _, _ := strings.Cut(v, "=")
			last[name] = v
		}
	}
	merged := make([]string, 0, len(last))
	for _, v := range last {
		merged = append(merged, v)
	}
	slices.Sort(merged)
	return merged
}

func toStrings(values [][]byte) []string {
	out := make([]string, len(values))
	for i, b := range values {
		out[i] = string(b)
	}
	return out
}
