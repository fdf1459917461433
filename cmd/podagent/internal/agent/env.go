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
		return mergeEnv(a.markers(), add), nil
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
	return mergeEnv(a.markers(), env, add), nil
}

// setEnv sets the variables that processes get on top of the agent's own environment.
// It merges them once, and not for each process. The caller holds the lock, unless
// nobody else knows the agent yet.
func (a *Agent) setEnv(env []string) {
	a.configured = env
	a.env = mergeEnv(a.markers(), a.config.Env, a.egressEnv, env)
}

// SandboxMarker begins the variable by which a launcher finds the processes of
// a sandbox whose agent has died. Every process gets it, in front of all variables but
// the exec id, because a launcher reads only the beginning of an environment.
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

// mergeEnv joins environments; a later value of a name wins. The variables in first win
// over all others, and stay in front of them.
func mergeEnv(first []string, envs ...[]string) []string {
	last := map[string]string{}
	for _, env := range envs {
		for _, v := range env {
			last[nameOf(v)] = v
		}
	}
	merged := make([]string, 0, len(first)+len(last))
	for _, v := range first {
		delete(last, nameOf(v))
		merged = append(merged, v)
	}
	for _, v := range last {
		merged = append(merged, v)
	}
	slices.Sort(merged[len(first):])
	return merged
}

// nameOf returns the name of a variable.
func nameOf(v string) string {
	name, _, _ := strings.Cut(v, "=")
	return name
}

func toStrings(values [][]byte) []string {
	out := make([]string, len(values))
	for i, b := range values {
		out[i] = string(b)
	}
	return out
}
