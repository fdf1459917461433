package launcher

import "github.com/podagent/podagent/pkg/podapi/isolation"

// isolationRecord is how a sandbox is kept from the rest of its machine, also when its agent starts again.
type isolationRecord struct {
	Mode     isolation.Mode `json:"mode,omitempty"`
	Readable []string       `json:"readable,omitempty"`
}

// on reports whether anything does.
func (r *isolationRecord) on() bool { return r.Mode != "" && r.Mode != isolation.Off }

// flags returns the agent's flags.
func (r *isolationRecord) flags() []string {
	if !r.on() {
		return nil
	}
	flags := []string{"--isolation=" + string(r.Mode), "--home=" + ownHome, "--temp=" + ownTemp}
	for _, path := range r.Readable {
		flags = append(flags, "--readable="+path)
	}
	return flags
}
