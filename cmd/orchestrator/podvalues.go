package main

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

// pairs is a flag that adds a label or an annotation.
type pairs map[string]string

func (p *pairs) Type() string { return "KEY=VALUE" }

func (p *pairs) String() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(*p)) {
		texts = append(texts, name+"="+(*p)[name])
	}
	return strings.Join(texts, ",")
}

func (p *pairs) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("it is not KEY=VALUE")
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[name] = value
	return nil
}

// patterns is a flag that adds a glob.
type patterns []string

func (p *patterns) Type() string   { return "GLOB" }
func (p *patterns) String() string { return strings.Join(*p, " ") }

func (p *patterns) Set(s string) error {
	*p = append(*p, s)
	return nil
}

// readOnlyDirs is a flag that adds a directory, which has no colons, and where
// its content comes from.
type readOnlyDirs []launcher.ReadOnlyDir

func (r *readOnlyDirs) Type() string { return "[FROM:]DIR" }

func (r *readOnlyDirs) String() string {
	var texts []string
	for _, d := range *r {
		if d.From != "" {
			d.From += ":"
		}
		texts = append(texts, d.From+d.Path)
	}
	return strings.Join(texts, " ")
}

func (r *readOnlyDirs) Set(s string) error {
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

// quantities is a flag for amounts of resources.
type quantities corev1.ResourceList

func (q *quantities) Type() string { return "NAME=QUANTITY,..." }

func (q *quantities) String() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(*q)) {
		amount := (*q)[name]
		texts = append(texts, string(name)+"="+amount.String())
	}
	return strings.Join(texts, ",")
}

func (q *quantities) Set(s string) error {
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
			*q = quantities{}
		}
		(*q)[corev1.ResourceName(name)] = amount
	}
	return nil
}

// period is a flag for a time that is not none.
type period time.Duration

func (p *period) Type() string { return "DURATION" }

func (p *period) String() string {
	if *p == 0 {
		return "" // the library's default
	}
	return time.Duration(*p).String()
}

func (p *period) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return fmt.Errorf("it is not a time such as 90s or 8h")
	}
	*p = period(d)
	return nil
}

// heartbeat is a flag for a time, or off.
type heartbeat time.Duration

func (h *heartbeat) Type() string { return "DURATION|off" }

func (h *heartbeat) String() string {
	if time.Duration(*h) == launcher.HeartbeatOff {
		return "off"
	}
	return time.Duration(*h).String()
}

func (h *heartbeat) Set(s string) error {
	if s == "off" {
		*h = heartbeat(launcher.HeartbeatOff)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New("it is neither a time such as 1m nor off")
	}
	*h = heartbeat(d)
	return nil
}
