package remote

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// sandbox is what a gateway says of one.
type sandbox struct {
	ID        string            `json:"id"`
	State     launcher.State    `json:"state"`
	Workdir   string            `json:"workdir"`
	CreatedAt time.Time         `json:"created_at"`
	Labels    map[string]string `json:"labels"`
	AutoPause bool              `json:"auto_pause"`
	ExpiresAt time.Time         `json:"expires_at"`
}

// unknown is a state that only newer gateways know.
const unknown launcher.State = "unknown"

var states = []launcher.State{launcher.Running, launcher.Stopped, launcher.Pending, launcher.Ended, launcher.Paused, launcher.Terminating}

func (s *sandbox) summary() launcher.Summary {
	state := s.State
	if !slices.Contains(states, state) {
		state = unknown
	}
	return launcher.Summary{ID: s.ID, State: state, Workdir: s.Workdir, CreatedAt: s.CreatedAt, Labels: s.Labels, Expires: s.ExpiresAt}
}

// expiry is when a sandbox ends itself.
type expiry struct {
	At time.Time `json:"expires_at"`
}

// page returns a page of the sandboxes after a name, and after which the next page begins; empty if this
// was the last.
func (l *Launcher) page(ctx context.Context, after string) (list []sandbox, next string, err error) {
	query := url.Values{"limit": {"1000"}}
	if after != "" {
		query.Set("after", after)
	}
	var answer struct {
		Sandboxes []sandbox `json:"sandboxes"`
		Next      string    `json:"next"`
	}
	_, err = l.call(ctx, quickTime, http.MethodGet, root+"?"+query.Encode(), nil, &answer)
	return answer.Sandboxes, answer.Next, err
}

// wholeSeconds returns a time in seconds, none less than it is.
func wholeSeconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return n
}
