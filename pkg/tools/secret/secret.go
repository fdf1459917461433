// Package secret gets secrets from where they are kept, and keeps them out of
// what a model reads.
//
// [Resolve] asks the providers, all at once, and returns a [Set], whose Env is
// the environment of processes. A [Redactor] replaces the values of sets in
// texts and streams by [REDACTED:NAME].
//
// What is replaced is a value as its bytes are, also without the white space
// around it, and with single blanks for that within it, as a shell prints it
// without quotes; each of these as JSON and as Go escape it within a string; and
// of a value with several lines each line of 16 bytes and more, since searches
// and windows of files show single lines. Where a text was cut within a value,
// [Redactor.RedactHead] and [Writer.FromMiddle] replace the part that is left.
//
// A value that is encoded otherwise (base64, hex, percent signs), or of which a
// program itself shows but a part, is not found: redaction keeps secrets out of
// a conversation by accident, and is no wall around code that has them and wants
// to tell them.
package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bounds of secrets, each with its reason.
const (
	// MinValue is how many bytes a value has at least. Shorter ones occur in
	// any text by chance, so they are refused, not left as they are.
	MinValue = 4
	// MinPart is from how many bytes on the part of a value is replaced that a
	// cut left: less tells little of it, and stands in any text by chance.
	MinPart = 4
	// MaxValue is how many bytes a value has at most: Linux takes no variable
	// of an environment over 128 KiB (MAX_ARG_STRLEN), its name included.
	MaxValue = 96 << 10
	// ResolveTimeout bounds the time that all providers of a set have: a
	// command that asks its user for a fingerprint takes some seconds.
	ResolveTimeout = 30 * time.Second
)

// Set is a number of secrets with their values. It does not show them when it
// is printed or logged, nor does what holds it. A nil Set is empty. A Set never
// changes.
type Set struct {
	// entries are sorted by name. Package fmt takes apart whatever it gets, but
	// functions.
	entries func() []entry
}

func newSet(entries []entry) *Set { return &Set{func() []entry { return entries }} }

type entry struct{ name, value string }

// validName is what names of secrets look like: that of variables of an environment
// that every shell takes.
var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Resolve asks all providers at once, each for the secret of its name in the
// map, within [ResolveTimeout]. A name is that of a variable of an environment.
// A value has from [MinValue] to [MaxValue] bytes and no NUL. The error joins
// those of all secrets that could not be had; it names them and where they were
// sought, and no value, as far as the providers keep to that.
func Resolve(ctx context.Context, providers map[string]Provider) (*Set, error) {
	ctx, cancel := context.WithTimeout(ctx, ResolveTimeout)
	defer cancel()
	entries := make([]entry, len(providers))
	errs := make([]error, len(providers))
	var all sync.WaitGroup
	for i, name := range slices.Sorted(maps.Keys(providers)) {
		all.Go(func() {
			value, err := resolve(ctx, name, providers[name])
			if err != nil {
				err = fmt.Errorf("cannot resolve secret %q: %w", name, err)
			}
			entries[i], errs[i] = entry{name, value}, err
		})
	}
	all.Wait()
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil, failure(entries, errs)
	}
	return newSet(entries), nil
}

// failure joins the errors, in which nothing is left of the values that could be
// had: what one provider says may be what another one knows.
func failure(entries []entry, errs []error) error {
	known := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.value == "" })
	redactor := NewRedactor(newSet(known))
	for i, err := range errs {
		errs[i] = redactor.Error(err)
	}
	return errors.Join(errs...)
}

func resolve(ctx context.Context, of string, p Provider) (string, error) {
	if !validName.MatchString(of) {
		return "", errors.New("its name is not one of a variable of an environment")
	}
	if p == nil {
		return "", errors.New("it has no provider")
	}
	value, err := ask(ctx, p)
	switch {
	case err != nil:
		return "", err
	case len(value) < MinValue:
		return "", fmt.Errorf("its value%s is shorter than %d bytes, too short to be kept out of texts", source(p), MinValue)
	case len(value) > MaxValue:
		return "", fmt.Errorf("its value%s is longer than %d KiB", source(p), MaxValue>>10)
	case strings.IndexByte(value, 0) >= 0:
		return "", fmt.Errorf("its value%s has a NUL byte", source(p))
	}
	return value, nil
}

// source says in brackets where a provider of this package has the secret from.
func source(p Provider) string {
	if of, ok := p.(interface{ source() string }); ok {
		return " (" + of.source() + ")"
	}
	return ""
}

// ask asks a provider until ctx ends. One that does not end then is left behind.
func ask(ctx context.Context, p Provider) (string, error) {
	type answer struct {
		value string
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		// What is sent unless Secret returns. The text of a panic may have the value in it.
		a := answer{err: errors.New("its provider panicked")}
		defer func() {
			_ = recover()
			got <- a
		}()
		value, err := p.Secret(ctx)
		a = answer{value, err}
	}()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("its provider%s did not answer: %w", source(p), ctx.Err())
	case a := <-got:
		return a.value, a.err
	}
}

// Join returns the secrets of all sets. Of secrets of one name the later set's
// is taken.
func Join(sets ...*Set) *Set {
	values := map[string]string{}
	for _, s := range sets {
		for _, e := range s.all() {
			values[e.name] = e.value
		}
	}
	var joined []entry
	for _, name := range slices.Sorted(maps.Keys(values)) {
		joined = append(joined, entry{name, values[name]})
	}
	return newSet(joined)
}

func (s *Set) all() []entry {
	if s == nil || s.entries == nil {
		return nil
	}
	return s.entries()
}

// Names returns the names of the secrets, sorted.
func (s *Set) Names() []string {
	var names []string
	for _, e := range s.all() {
		names = append(names, e.name)
	}
	return names
}

// Env returns the secrets as NAME=VALUE, for the environment of a process.
func (s *Set) Env() []string {
	var env []string
	for _, e := range s.all() {
		env = append(env, e.name+"="+e.value)
	}
	return env
}

// String names the secrets.
func (s *Set) String() string { return "secrets" + fmt.Sprint(s.Names()) }

// Format prints what String returns, whatever the verb is.
func (s *Set) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue is what String returns.
func (s *Set) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns what String does, so that no encoding shows more.
func (s *Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
