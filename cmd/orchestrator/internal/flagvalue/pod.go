package flagvalue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

// Pairs is a flag that adds a label or an annotation.
type Pairs map[string]string

func (p *Pairs) Type() string { return "KEY=VALUE" }

func (p *Pairs) String() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(*p)) {
		texts = append(texts, name+"="+(*p)[name])
	}
	return strings.Join(texts, ",")
}

func (p *Pairs) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("it is not KEY=VALUE")
	}
	if *p == nil {
		*p = Pairs{}
	}
	(*p)[name] = value
	return nil
}

// Patterns is a flag that adds a glob.
type Patterns []string

func (p *Patterns) Type() string   { return "GLOB" }
func (p *Patterns) String() string { return strings.Join(*p, " ") }

func (p *Patterns) Set(s string) error {
	*p = append(*p, s)
	return nil
}

// ReadOnlyDirs is a flag that adds a directory, whose path has no colons, and the
// directory of the image that its content comes from.
type ReadOnlyDirs []launcher.ReadOnlyDir

func (r *ReadOnlyDirs) Type() string { return "[FROM:]DIR" }

func (r *ReadOnlyDirs) String() string {
	var texts []string
	for _, d := range *r {
		if d.From != "" {
			d.From += ":"
		}
		texts = append(texts, d.From+d.Path)
	}
	return strings.Join(texts, " ")
}

func (r *ReadOnlyDirs) Set(s string) error {
	colon := strings.LastIndexByte(s, ':')
	d := launcher.ReadOnlyDir{Path: s[colon+1:]}
	if colon >= 0 {
		if d.From = s[:colon]; d.From == "" {
			return errors.New("there is nothing in front of the colon")
		}
	}
	*r = append(*r, d)
	return nil
}

// Quantities is a flag for amounts of resources, separated by commas. A repeated
// flag adds to them.
type Quantities corev1.ResourceList

func (q *Quantities) Type() string { return "NAME=QUANTITY,..." }

func (q *Quantities) String() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(*q)) {
		amount := (*q)[name]
		texts = append(texts, string(name)+"="+amount.String())
	}
	return strings.Join(texts, ",")
}

func (q *Quantities) Set(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		name, text, ok := strings.Cut(part, "=")
		if !ok || name == "" {
			return fmt.Errorf("it is not NAME=QUANTITY, such as cpu=500m,memory=1Gi")
		}
		amount, err := resource.ParseQuantity(text)
		if err != nil || amount.Sign() < 0 {
			return fmt.Errorf("%q is not a quantity, such as 500m or 1Gi", text)
		}
		if *q == nil {
			*q = Quantities{}
		}
		(*q)[corev1.ResourceName(name)] = amount
	}
	return nil
}

// Period is a flag for a duration above zero. Zero stands for the library's
// default.
type Period time.Duration

func (p *Period) Type() string { return "DURATION" }

func (p *Period) String() string {
	if *p == 0 {
		return ""
	}
	return time.Duration(*p).String()
}

func (p *Period) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return fmt.Errorf("it is not a time such as 90s or 8h")
	}
	*p = Period(d)
	return nil
}

// Heartbeat is a flag for a duration above zero, or off, which is
// [launcher.HeartbeatOff].
type Heartbeat time.Duration

func (h *Heartbeat) Type() string { return "DURATION|off" }

func (h *Heartbeat) String() string {
	if time.Duration(*h) == launcher.HeartbeatOff {
		return "off"
	}
	return time.Duration(*h).String()
}

func (h *Heartbeat) Set(s string) error {
	if s == "off" {
		*h = Heartbeat(launcher.HeartbeatOff)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New("it is neither a time such as 1m nor off")
	}
	*h = Heartbeat(d)
	return nil
}
