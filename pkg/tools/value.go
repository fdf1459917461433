package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// kindOf returns the JSON type of a valid value.
func kindOf(value json.RawMessage) string {
	switch c := value[0]; {
	case c == '{':
		return "object"
	case c == '[':
		return "array"
	case c == '"':
		return "string"
	case c == 't' || c == 'f':
		return "boolean"
	case c == 'n':
		return "null"
	}
	return "number"
}

// maxInteger bounds the whole numbers that a float64 can always represent. Most
// languages read the numbers of JSON as float64.
const maxInteger = 1 << 53

// convert converts value to one of the types, and reports whether it can.
func convert(value json.RawMessage, types []string) (json.RawMessage, bool) {
	kind := kindOf(value)
	if len(types) == 0 || slices.Contains(types, kind) {
		return value, true
	}
	text := string(value)
	if kind == "string" && json.Unmarshal(value, &text) != nil {
		return nil, false
	}
	for _, t := range types {
		switch {
		case t == "boolean" && kind == "string" && (text == "true" || text == "false"):
			return json.RawMessage(text), true
		case t == "integer" && (kind == "string" || kind == "number"):
			if n, err := strconv.ParseFloat(text, 64); err == nil && n == math.Trunc(n) && math.Abs(n) < maxInteger {
				return strconv.AppendInt(nil, int64(n), 10), true
			}
		case t == "number" && kind == "string":
			if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) {
				return strconv.AppendFloat(nil, n, 'g', -1, 64), true
			}
		}
	}
	return nil, false
}

// outOfRange says what a value must be, if it violates the schema's limits.
func outOfRange(value json.RawMessage, schema *jsonschema.Schema) string {
	switch kindOf(value) {
	case "number":
		n, err := strconv.ParseFloat(string(value), 64)
		switch {
		case err != nil:
			return "be a number that fits a float64"
		case schema.Minimum != nil && n < *schema.Minimum:
			return fmt.Sprintf("be at least %v, not %s", *schema.Minimum, value)
		case schema.ExclusiveMinimum != nil && n <= *schema.ExclusiveMinimum:
			return fmt.Sprintf("be more than %v, not %s", *schema.ExclusiveMinimum, value)
		case schema.Maximum != nil && n > *schema.Maximum:
			return fmt.Sprintf("be at most %v, not %s", *schema.Maximum, value)
		}
	case "string":
		if schema.MinLength != nil && *schema.MinLength > 0 && len(value) == len(`""`) {
			return "not be empty"
		}
		return notOneOf(value, schema.Enum)
	}
	return ""
}

// notOneOf says what a string must be that is none of those in a schema, if it has any.
func notOneOf(value json.RawMessage, these []any) string {
	var text string
	if len(these) == 0 || json.Unmarshal(value, &text) == nil && slices.Contains(these, any(text)) {
		return ""
	}
	var names []string
	for _, name := range these {
		names = append(names, fmt.Sprint(name))
	}
	return fmt.Sprintf("be one of %s, not %s", strings.Join(names, ", "), describe(value))
}

// article returns types with articles, for a sentence.
func article(types []string) string {
	var words []string
	for _, t := range types {
		switch t {
		case "integer", "array", "object":
			words = append(words, "an "+t)
		case "null":
		default:
			words = append(words, "a "+t)
		}
	}
	return strings.Join(words, " or ")
}

// describe describes a wrong value, for a sentence.
func describe(value json.RawMessage) string {
	switch kind := kindOf(value); kind {
	case "object", "array":
		return "an " + kind
	case "string":
		var text string
		if json.Unmarshal(value, &text) == nil {
			return "the string " + quote(text)
		}
	}
	text := cut(string(value), maxQuote)
	if n, err := strconv.ParseFloat(string(value), 64); err == nil && math.Abs(n) >= maxInteger {
		text += ", which is too large"
	}
	return text
}

// quote returns text in quotes, cut if it is long.
func quote(text string) string { return strconv.Quote(cut(text, maxQuote)) }

// cut returns at most n bytes of text, in whole runes, with an ellipsis if there
// were more.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
