package egress

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/egress/internal/mask"
	"github.com/podagent/podagent/pkg/egress/internal/trust"
)

// held is a secret of a far end.
type held struct {
	Secret
	placeholder string
	value       func() string // a function, because package fmt cannot print it
	needles     func() []mask.Needle
}

// secretSet has the secrets of a far end. A nil set is empty. It never changes.
type secretSet struct{ all []*held }

// newSecretSet checks secrets, and gives each its placeholder. Its error has those of all
// secrets, and no values.
func newSecretSet(secrets []Secret, seed []byte) (*secretSet, error) {
	if len(secrets) > maxSecrets {
		return nil, fmt.Errorf("there are %d secrets: no more than %d can be searched for", len(secrets), maxSecrets)
	}
	set := &secretSet{}
	var errs []error
	taken := map[string]string{}
	for _, s := range secrets {
		err := s.Check()
		for _, place := range []string{"the name " + s.Name, "the variable " + s.variable(), "the file " + s.File} {
			if other := taken[place]; err == nil && other != "" && !strings.HasSuffix(place, " ") {
				err = fmt.Errorf("%s is that of another secret, %s", place, other)
			}
			taken[place] = s.Name
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("credential %.64q: %w", s.Name, err))
			continue
		}
		set.all = append(set.all, newHeld(s, seed))
	}
	return set, errors.Join(errs...)
}

func newHeld(s Secret, seed []byte) *held {
	value := string(s.Value)
	h := &held{Secret: s, placeholder: s.placeholder(seed), value: func() string { return value }}
	needles := mask.Needles(value, h.placeholder)
	h.needles = func() []mask.Needle { return needles }
	h.Value, h.Hosts, h.Headers = nil, slices.Clone(s.Hosts), slices.Clone(s.Headers)
	return h
}

// newMask returns a mask for secrets.
func newMask(secrets []*held) *mask.Mask {
	var all [][]mask.Needle
	for _, s := range secrets {
		all = append(all, s.needles())
	}
	return mask.New(all...)
}

// list returns the secrets.
func (set *secretSet) list() []*held {
	if set == nil {
		return nil
	}
	return set.all
}

// boundTo returns the secrets that a host may have.
func (set *secretSet) boundTo(host string, port int) []*held {
	var bound []*held
	for _, s := range set.list() {
		if s.boundTo(host, port) {
			bound = append(bound, s)
		}
	}
	return bound
}

func (s *held) boundTo(host string, port int) bool {
	return slices.ContainsFunc(s.Hosts, func(r Rule) bool { return r.Matches(host, port) })
}

// seenIn returns the names of the secrets whose placeholders are in a text, sorted.
func (set *secretSet) seenIn(text string) []string {
	var names []string
	for _, s := range set.list() {
		if strings.Contains(text, s.placeholder) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// longest returns the length of the longest placeholder.
func (set *secretSet) longest() int {
	longest := 0
	for _, s := range set.list() {
		longest = max(longest, len(s.placeholder))
	}
	return longest
}

// placeholders returns what programs in the sandbox have.
func (set *secretSet) placeholders() []trust.Placeholder {
	var all []trust.Placeholder
	for _, s := range set.list() {
		all = append(all, trust.Placeholder{Name: s.Name, Env: s.variable(), File: s.File, Text: s.placeholder})
	}
	return all
}
