package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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

// check refuses an answer about another sandbox than the one that was asked for.
func (s *sandbox) check(id string) error {
	if s.ID != id {
		return strange("the gateway was asked for the sandbox %q, and answered with %.100q", id, s.ID)
	}
	return nil
}

var errPage = fmt.Errorf("a page must be a list of %d sandboxes at most, each with a name", pageLimit)

// sandboxes are those of a page.
type sandboxes []sandbox

// UnmarshalJSON implements [json.Unmarshaler]. It reads no more than were asked for: a few bytes could
// stand for each.
func (list *sandboxes) UnmarshalJSON(text []byte) error {
	from := json.NewDecoder(bytes.NewReader(text))
	if open, err := from.Token(); err != nil || open == nil { // null is none
		return err
	} else if open != json.Delim('[') {
		return errPage
	}
	for from.More() {
		var s sandbox
		if err := from.Decode(&s); err != nil {
			return err
		}
		if len(*list) == pageLimit || !isName(s.ID) {
			return errPage
		}
		*list = append(*list, s)
	}
	return nil
}

// expiry is when a sandbox ends itself.
type expiry struct {
	At time.Time `json:"expires_at"`
}

// page returns a page of the sandboxes after a name, and after which the next page begins; empty if this
// was the last.
func (l *Launcher) page(ctx context.Context, after string) (list sandboxes, next string, err error) {
	query := url.Values{"limit": {strconv.Itoa(pageLimit)}}
	if after != "" {
		query.Set("after", after)
	}
	var answer struct {
		Sandboxes sandboxes `json:"sandboxes"`
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
