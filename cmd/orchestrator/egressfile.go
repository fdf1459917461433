package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/podagent/podagent/internal/reread"
	"github.com/podagent/podagent/pkg/egress"
)

// allowFile is a file of rules, which may change.
type allowFile struct {
	path string // empty for none
	file reread.File
}

// check refuses an empty path, which a script has whose variable is unset.
func (f *allowFile) check(flag *pflag.Flag) error {
	if flag.Changed && f.path == "" {
		return usagef("--allow-file must not be blank")
	}
	return nil
}

// read returns the rules in the file.
func (f *allowFile) read() ([]egress.Rule, error) {
	if f.path == "" {
		return nil, nil
	}
	data, _, err := f.file.Read(f.path, maxAllowFile, 0)
	if err != nil {
		return nil, err
	}
	return f.parse(data)
}

// parse returns the rules in a text: one a line, after # a comment.
func (f *allowFile) parse(data []byte) (rules []egress.Rule, err error) {
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		rule, err := egress.ParseRule(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", f.path, number, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// follow reads the file again and again until ctx ends, and calls changed with its rules, or with
// what is wrong with it, when it is another.
func (f *allowFile) follow(ctx context.Context, changed func([]egress.Rule, error)) {
	if f.path == "" {
		return
	}
	ticker := time.NewTicker(allowFilePeriod)
	defer ticker.Stop()
	for wrong := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		data, other, err := f.file.Read(f.path, maxAllowFile, allowFileAge)
		var rules []egress.Rule
		if err == nil && other {
			rules, err = f.parse(data)
		}
		switch {
		case err != nil && err.Error() != wrong:
			changed(nil, err)
			wrong = err.Error()
		case err == nil && other:
			changed(rules, nil)
			wrong = ""
		}
	}
}
