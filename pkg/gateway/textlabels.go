package gateway

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
)

// A text that is no value of a label is kept in several, whose names are a prefix with two digits: base64, in
// parts. A label's 63 bytes must begin and end with a letter or a digit, which others of the alphabet are not.
const (
	textPart = 61
	textEdge = "x"
)

// textLabels returns the labels that keep a text, which has at least one; false if it needs more than most.
func textLabels(prefix, text string, most int) (map[string]string, bool) {
	parts := slices.Collect(slices.Chunk([]byte(base64.RawURLEncoding.EncodeToString([]byte(text))), textPart))
	if len(parts) > most {
		return nil, false
	}
	if len(parts) == 0 {
		parts = [][]byte{nil} // an empty text is another thing than none
	}
	labels := map[string]string{}
	for i, part := range parts {
		labels[textLabel(prefix, i)] = textEdge + string(part) + textEdge
	}
	return labels, true
}

func textLabel(prefix string, i int) string { return fmt.Sprintf("%s%02d", prefix, i) }

// errTextLabels says that labels were changed by somebody else.
var errTextLabels = errors.New("the labels that keep it are broken")

// textIn returns the text that a sandbox's labels keep, in up to most of them, and whether they keep any.
func textIn(s launcher.Summary, prefix string, most int) (text string, kept bool, err error) {
	var all strings.Builder
	parts := 0
	for ; parts < most; parts++ {
		part, there := s.Labels[textLabel(prefix, parts)]
		if !there {
			break
		}
		part, begins := strings.CutPrefix(part, textEdge)
		part, ends := strings.CutSuffix(part, textEdge)
		if !begins || !ends {
			return "", false, errTextLabels
		}
		all.WriteString(part)
	}
	for name := range s.Labels {
		if parts == 0 && strings.HasPrefix(name, prefix) {
			return "", false, errTextLabels
		}
	}
	decoded, err := base64.RawURLEncoding.DecodeString(all.String())
	if err != nil {
		return "", false, errTextLabels
	}
	return string(decoded), parts > 0, nil
}
