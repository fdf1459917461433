package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/tools/secret"
)

const credentialHelp = "let commands use a secret that they never have: the hosts get it in place of a placeholder, which commands have in the variable NAME; `NAME[=env:VARIABLE|=file:FILE][,OPTION...]@HOST[,HOST...]` reads it here; may be repeated"

// The errors of the parts of a flag that may be the secret itself do not repeat them.
var (
	errCredential = errors.New("it is not NAME@HOST, NAME=env:VARIABLE@HOST or NAME=file:FILE@HOST; never put the secret itself into a flag, because others can see it")
	errNoVariable = errors.New("NAME in NAME@HOST is not that of a variable in the environment")
	errOption     = errors.New("there are no options but prefix=TEXT, path=PATH and header=NAME")
)

// credentials returns the secrets of --credential, with their values.
func credentials(ctx context.Context, given []string) ([]egress.Secret, error) {
	var all []egress.Secret
	var errs []error
	for _, text := range given {
		s, from, err := parseCredential(text)
		if err == nil {
			s, err = s.Resolve(ctx, from)
		}
		all, errs = append(all, s), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, egress.CheckSecrets(all)
}

// parseCredential parses a value of the flag. The secret has no value yet.
func parseCredential(text string) (s egress.Secret, from secret.Provider, err error) {
	at := strings.LastIndexByte(text, '@') // no host has it, and a FILE may
	if at < 0 {
		return s, nil, errCredential
	}
	words := strings.Split(text[:at], ",")
	if s.Name, from, err = credentialSource(words[0]); err != nil {
		return s, nil, err
	}
	for _, word := range words[1:] {
		if err := addOption(&s, word); err != nil {
			return s, nil, fmt.Errorf("credential %s: %w", s.Name, err)
		}
	}
	if s.Hosts, err = flagvalue.RuleList(text[at+1:]); err != nil {
		return s, nil, fmt.Errorf("credential %s: host %w", s.Name, err)
	}
	return s, from, nil
}

// credentialSource returns the name of a secret, and the place of its value.
func credentialSource(text string) (name string, from secret.Provider, err error) {
	name, source, told := strings.Cut(text, "=")
	if !told {
		if _, ok := os.LookupEnv(name); !ok || name == "" {
			return "", nil, errNoVariable
		}
		return name, secret.Env(name), nil
	}
	from, err = secretFrom(source)
	switch {
	case name == "" || from == nil && err == nil:
		return "", nil, errCredential
	case err != nil:
		return "", nil, fmt.Errorf("credential %s: %w", name, err)
	}
	return name, from, nil
}

func addOption(s *egress.Secret, text string) error {
	name, value, _ := strings.Cut(text, "=")
	switch {
	case value == "":
		return errOption
	case name == "prefix":
		s.Prefix = value
	case name == "path":
		s.File = value
	case name == "header":
		s.Headers = append(s.Headers, value)
	default:
		return errOption
	}
	return nil
}
