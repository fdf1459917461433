package launchertest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// startWatched is a program that starts the agent. First it links the agent's log,
// its standard error, into the directory from which it was started, so that the log
// outlives the sandbox.
const startWatched = `#!/bin/sh
ln -L "/proc/$$/fd/2" "${0%%/*}/$$.log"
exec '%s' "$@"
`

// watched writes startWatched once for all tests of a program, because a file that is
// being written cannot be started.
var watched = sync.OnceValues(func() (string, error) {
	agent, err := buildAgent()
	if err != nil {
		return "", err
	}
	path := agent + ".sh"
	scratch := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(scratch, fmt.Appendf(nil, startWatched, agent), 0o755); err != nil {
		return "", err
	}
	return path, os.Rename(scratch, path)
})

// agentThatLogs returns a program that starts the agent. Under the race detector it
// also links the agent's logs into dir, for [raceIn].
func agentThatLogs(dir string) (string, error) {
	if !raced {
		return buildAgent()
	}
	program, err := watched()
	if err != nil {
		return "", err
	}
	link := filepath.Join(dir, "podagent")
	return link, os.Symlink(program, link)
}

// raceIn returns the first data race in the logs in dir, as an error.
func raceIn(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		if i := bytes.Index(data, []byte("WARNING: DATA RACE")); i >= 0 {
			return fmt.Errorf("a data race in the agent:\n%s", data[i:])
		}
	}
	return nil
}
