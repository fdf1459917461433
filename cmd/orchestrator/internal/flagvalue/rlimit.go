package flagvalue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/podagent/podagent/pkg/podapi"
)

// Rlimits is a flag that adds a resource limit, written as docker's --ulimit.
type Rlimits []podapi.Rlimit

func (l *Rlimits) String() string { return "" }
func (l *Rlimits) Type() string   { return "NAME=SOFT[:HARD]" }

func (l *Rlimits) Set(s string) error {
	name, values, ok := strings.Cut(s, "=")
	if !ok || name == "" || values == "" {
		return fmt.Errorf("it is not NAME=SOFT[:HARD]")
	}
	first, second, both := strings.Cut(values, ":")
	soft, err := limitValue(first)
	hard := soft
	if both && err == nil {
		hard, err = limitValue(second)
	}
	if err != nil {
		return err
	}
	if soft > hard {
		return fmt.Errorf("the soft limit is above the hard limit")
	}
	*l = append(*l, podapi.Rlimit{Resource: name, Soft: soft, Hard: hard})
	return nil
}

func limitValue(s string) (uint64, error) {
	if s == "unlimited" || s == "-1" {
		return podapi.Unlimited, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf(`%q is neither a number nor "unlimited"`, s)
	}
	return n, nil
}
