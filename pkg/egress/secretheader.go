package egress

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// notForSecrets are headers that hosts store, show or log as a rule, and those that are
// made of URLs. Code that may not have a secret could read it there. Names that end in "-"
// stand for all that begin with them.
var notForSecrets = []string{
	"Accept-", "Access-Control-", "Baggage", "Cf-", "Content-", "Date", "Destination", "Expect", "Forwarded", "From",
	"If-", "Link", "Origin", "Range", "Referer", "Sec-", "Slug", "Trace", "Traceparent", "Tracestate", "User-Agent", "Via",
	"X-Amz-Meta-", "X-Amz-Tagging", "X-Container-Meta-", "X-Correlation-Id", "X-Forwarded-", "X-Goog-Meta-",
	"X-Ms-Meta-", "X-Object-Meta-", "X-Request-Id",
}

// maySecret reports whether a header may get a secret that names no headers.
func maySecret(name string) bool {
	return !slices.ContainsFunc(notForSecrets, func(other string) bool {
		return name == other || strings.HasSuffix(other, "-") && strings.HasPrefix(name, other)
	})
}

// goesInto reports whether a header, by its canonical name, may get the secret.
func (s *held) goesInto(name string) bool {
	if len(s.Headers) == 0 {
		return maySecret(name)
	}
	return slices.ContainsFunc(s.Headers, func(other string) bool { return strings.EqualFold(name, other) })
}

// A put is what putInto did to a header.
type put struct {
	// texts are what the header has now and may not come back: credentials of Basic.
	texts []string
	// count is how many placeholders became values.
	count int
	// used has, for the name of each secret that was put in, one of the headers that got it.
	used map[string]string
	// stayed has, for the name of each secret whose placeholder stayed, the header that
	// has it.
	stayed map[string]string
}

// putInto puts the values of these secrets, which the request's host may have, into the
// headers that may have them. What other placeholders are there stays.
func (set *secretSet) putInto(header http.Header, bound []*held) (done put, err error) {
	done.used, done.stayed = map[string]string{}, map[string]string{}
	for name, values := range header {
		for i, value := range values {
			if values[i], err = set.putIntoValue(name, value, bound, &done); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

func (set *secretSet) putIntoValue(name, value string, bound []*held, done *put) (string, error) {
	scheme, encoded, isBasic := cutBasic(value)
	text := value
	if isBasic {
		text = encoded
	}
	changed, count := text, 0
	for _, s := range bound {
		if n := strings.Count(changed, s.placeholder); n > 0 && s.goesInto(name) {
			if count += n; done.count+count > maxPut {
				return value, fmt.Errorf("the request has more than %d placeholders of secrets", maxPut)
			}
			changed = strings.ReplaceAll(changed, s.placeholder, s.value())
			done.used[s.Name] = name
		}
	}
	// The text before the change: a value may look like a placeholder.
	for _, left := range set.seenIn(text) {
		if !slices.ContainsFunc(bound, func(s *held) bool { return s.Name == left && s.goesInto(name) }) {
			done.stayed[left] = name
		}
	}
	if done.count += count; count == 0 {
		return value, nil
	}
	if isBasic {
		changed = base64.StdEncoding.EncodeToString([]byte(changed))
		done.texts = append(done.texts, changed)
		return scheme + changed, nil
	}
	return changed, nil
}

// cutBasic returns the user and the password of credentials of the scheme Basic (RFC
// 7617), and what is before them. Some clients leave out the padding.
func cutBasic(value string) (scheme, decoded string, ok bool) {
	const name = "basic "
	if len(value) < len(name) || !strings.EqualFold(value[:len(name)], name) {
		return "", "", false
	}
	encoded := strings.TrimLeft(value[len(name):], " ")
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "= "))
	return value[:len(value)-len(encoded)], string(text), err == nil
}
