package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
)

// ownLabels begins the names of labels that only the host gives, in Options.Base.
const ownLabels = "podagent.dev/"

// setLabels gives a new sandbox the labels that its creator wants, and the host's, which no creator
// can replace.
func (o *order) setLabels() error {
	for name := range o.Labels {
		if strings.HasPrefix(name, ownLabels) {
			return invalid("labels: the prefix %s of %.100q is reserved", ownLabels, name)
		}
	}
	if err := checkPorts(o.PublicPorts); err != nil {
		return err
	}
	if all := maps.Clone(o.Labels); all != nil {
		maps.Copy(all, o.spec.Labels)
		o.spec.Labels = all
	}
	return nil
}

// labelTerm is a label that a sandbox must have.
type labelTerm struct{ name, value string }

// labelTerms parses what a list is filtered by: texts that each have one NAME=VALUE, or several
// with commas between them.
func labelTerms(texts []string) (terms []labelTerm, err error) {
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(part, "=")
			switch {
			case !ok:
				err = fmt.Errorf("%.100q is not NAME=VALUE", part)
			case len(terms) == labelLimit:
				err = fmt.Errorf("there are more than %d", labelLimit)
			default:
				err = checkLabel(name, value)
			}
			if err != nil {
				return nil, invalid("label: %v", err)
			}
			terms = append(terms, labelTerm{name, value})
		}
	}
	return terms, nil
}

// checkLabel refuses what is no label.
func checkLabel(name, value string) error {
	spec := launcher.Spec{Labels: map[string]string{name: value}}
	err := spec.Validate()
	if wrong, ok := errors.AsType[*launcher.SpecError](err); ok {
		return errors.New(wrong.Msg)
	}
	return err
}

// hasLabels reports whether a sandbox has all of these labels.
func hasLabels(s launcher.Summary, terms []labelTerm) bool {
	return !slices.ContainsFunc(terms, func(t labelTerm) bool {
		value, ok := s.Labels[t.name]
		return !ok || value != t.value
	})
}
