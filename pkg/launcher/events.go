package launcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Event is something that the cluster reported about a pod.
type Event struct {
	Time                  time.Time // when it last occurred
	Count                 int       // how often it occurred
	Type, Reason, Message string    // Normal or Warning, a word, and a sentence
}

// Events returns the cluster's latest 100 events about a sandbox's pod, or the
// last one that it had, newest first. Without the permission: [ErrForbidden].
func (k *Kubernetes) Events(ctx context.Context, id string) ([]Event, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, wrap("finding events of", id, err)
	}
	events, err := c.eventsOfOne(ctx, id)
	slices.Reverse(events)
	return events, wrap("finding events of", id, err)
}

// eventsOfOne returns the events of a sandbox in any state, oldest first.
func (c *cluster) eventsOfOne(ctx context.Context, id string) ([]Event, error) {
	pod, _, err := c.findObjects(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case pod != nil:
		return c.eventsOf(ctx, pod)
	}
	return c.eventsBy(ctx, fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": podmeta.NameOf(id)})
}

// eventsOf returns the cluster's events about the pod, oldest first.
func (c *cluster) eventsOf(ctx context.Context, pod *corev1.Pod) ([]Event, error) {
	return c.eventsBy(ctx, fields.Set{"involvedObject.uid": string(pod.UID)})
}

// eventsBy returns the latest of the events that fields select, oldest first. The cluster has them in the
// order of their names, so all pages must be read, up to a bound.
func (c *cluster) eventsBy(ctx context.Context, by fields.Set) ([]Event, error) {
	var latest []corev1.Event
	options := metav1.ListOptions{FieldSelector: by.String(), Limit: maxEvents}
	for range maxEventPages {
		list, err := c.api.CoreV1().Events(c.namespace).List(ctx, options)
		if isRefusal(err) {
			err = fmt.Errorf("%w: %w", ErrForbidden, err)
		}
		if err != nil {
			return nil, err
		}
		latest = append(latest, list.Items...)
		slices.SortStableFunc(latest, func(a, b corev1.Event) int { return eventTime(a).Compare(eventTime(b)) })
		latest = latest[max(0, len(latest)-maxEvents):]
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	events := make([]Event, len(latest))
	for i, e := range latest {
		count := int(e.Count)
		if e.Series != nil {
			count = int(e.Series.Count)
		}
		events[i] = Event{Time: eventTime(e).UTC(), Count: cmp.Or(count, 1), Type: e.Type, Reason: e.Reason, Message: e.Message}
	}
	return events, nil
}
