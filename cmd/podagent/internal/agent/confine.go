package agent

import "github.com/podagent/podagent/cmd/podagent/internal/confine"

// confine returns the thread that starts processes, and logs which parts of the boundary
// are missing. Code in the sandbox must run on no other thread.
func (c *Config) confine(fence *confine.Fence) (thread *confine.Thread, missing, err error) {
	thread, missing, err = confine.Start(c.Confine, fence, c.Files)
	switch {
	case err != nil:
		return nil, nil, err
	case c.Confine == confine.Off:
		c.Log.Warn("processes are not confined, as requested")
	case missing != nil:
		c.Log.Warn("processes are not fully confined", "by", thread.Parts().Names(), "missing", missing)
	}
	return thread, missing, nil
}
