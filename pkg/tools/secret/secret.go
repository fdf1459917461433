// Package secret fetches secrets from the places where they are kept, and keeps
// them out of the texts that a model reads.
//
// [Resolve] asks all providers at once and returns a [Set]. Its Env method returns
// variables for the environment of processes. A [Redactor] replaces the values of
// sets in texts and streams by [REDACTED:NAME].
//
// A Redactor finds a value; the value without the white space around it; the value with
// single blanks for its white space, as a shell prints it without quotes; and each line
// of 16 bytes and more of a multi-line value, because searches and parts of files show
// single lines. It finds each of these as it is, and escaped with backslashes: as in
// strings of JSON (of ASCII only, too) and of programming languages, and as shells print
// it (export -p, printf %q, $'…'). It also finds texts of 8 bytes and more
//
//   - within the single quotes of shells, and with doubled quotes (SQL, YAML, CSV);
//   - percent-encoded, as in URLs, and with pluses for blanks;
//   - with character references of HTML and XML: named, decimal and hexadecimal;
//   - in hex, also with blanks, colons or line breaks between the bytes, and in dumps with
//     addresses and a column of text, except for single lines of a value;
//   - in base64 of either alphabet, also with other bytes before and after them, and broken
//     into lines, except for single lines of a value. The base64 that remains on either
//     side holds less than a byte of the value.
//
// If a text was cut inside a value, [Redactor.RedactHead] and [Writer.FromMiddle]
// replace the remaining part.
//
// A Redactor does not find other encodings, such as base32, octal dumps or UTF-16; one
// encoding within another, such as JSON in a string of JSON, if both change the value;
// or a part of a value that a program shows by itself. Redaction keeps secrets from slipping
// into a conversation by accident. It cannot stop code that has them and wants to reveal
// them.
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

// The limits of secrets, each with its reason.
const (
	// MinValue is the least length of a value in bytes. Shorter values occur in any
	// text by chance and cannot be redacted, so Resolve refuses them.
	MinValue = 4
	// MinPart is the least length in bytes at which a part of a value, left by a
	// cut, is replaced. Less reveals little, and occurs in any text by chance.
	MinPart = 4
	// MaxValue is the greatest length of a value in bytes: Linux accepts no
	// environment variable over 128 KiB (MAX_ARG_STRLEN), its name included.
	MaxValue = 96 << 10
	// ResolveTimeout bounds the time of all providers of a set together: a command
	// that asks its user for a fingerprint takes some seconds.
	ResolveTimeout = 30 * time.Second
)

// Set is a set of secrets with their values. Printing or logging it, or a value
// that contains it, does not reveal them. A nil Set is empty. A Set never changes.
type Set struct {
	// entries returns the secrets sorted by name. It is a function, because package
	// fmt prints everything else.
	entries func() []entry
}

func newSet(entries []entry) *Set { return &Set{func() []entry { return entries }} }

type entry struct{ name, value string }

// validName matches the names of secrets: every shell accepts such variables.
var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Resolve asks all providers at once, within [ResolveTimeout]. The map's keys are
// the names of environment variables: letters, digits and "_", not beginning with
// a digit. A value must have [MinValue] to [MaxValue] bytes and no NUL. The error
// joins the errors of all secrets that failed. It names them and their sources. It
// contains no values, provided that the errors of the providers do not.
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

// failure joins the errors and redacts the values that were resolved: the error of
// one provider may contain the value of another.
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
		return "", errors.New("its name is not valid for an environment variable")
	}
	if p == nil {
		return "", errors.New("it has no provider")
	}
	value, err := ask(ctx, p)
	switch {
	case err != nil:
		return "", err
	case len(value) < MinValue:
		return "", fmt.Errorf("its value%s is shorter than %d bytes, too short to be redacted", source(p), MinValue)
	case len(value) > MaxValue:
		return "", fmt.Errorf("its value%s is longer than %d KiB", source(p), MaxValue>>10)
	case strings.IndexByte(value, 0) >= 0:
		return "", fmt.Errorf("its value%s has a NUL byte", source(p))
	}
	return value, nil
}

// source names in brackets the source of a provider of this package.
func source(p Provider) string {
	if of, ok := p.(interface{ source() string }); ok {
		return " (" + of.source() + ")"
	}
	return ""
}

// ask asks a provider until ctx ends. It abandons a provider that does not return
// then.
func ask(ctx context.Context, p Provider) (string, error) {
	type answer struct {
		value string
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		// This is sent unless Secret returns. It leaves out the text of a panic, which may
		// contain the value.
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

// Join returns the secrets of all sets. If sets share a name, the later one wins.
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

// String returns the names of the secrets.
func (s *Set) String() string { return "secrets" + fmt.Sprint(s.Names()) }

// Format prints what String returns, whatever the verb is.
func (s *Set) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue returns what String does.
func (s *Set) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns what String does, so that no encoding shows more.
func (s *Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
