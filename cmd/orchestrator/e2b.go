package main

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/e2b"
)

// e2bFlags say whether and how a gateway serves E2B's clients.
type e2bFlags struct {
	serve     bool
	templates string
}

func (o *e2bFlags) define(flags *pflag.FlagSet) {
	flags.BoolVar(&o.serve, "e2b", false, "serve E2B's SDKs, too: see docs/gateway.md")
	flags.StringVar(&o.templates, "e2b-templates", "", "what E2B's SDKs can make sandboxes from, as `NAME=pool:POOL` or NAME=image:IMAGE, with commas between them; \"base\" is what the other flags say unless it is here")
	settings.Mark(flags, "e2b", "e2b-templates")
}

// faces returns the faces that a gateway serves.
func (o *e2bFlags) faces() ([]gateway.Face, error) {
	templates, err := parseTemplates(o.templates)
	switch {
	case err != nil:
		return nil, err
	case o.serve:
		return []gateway.Face{&e2b.Face{Templates: templates}}, nil
	case o.templates != "":
		return nil, usagef("--e2b-templates needs --e2b")
	}
	return nil, nil
}

// token makes up a token: one of the form that all versions of E2B's SDKs take, if they are served.
func (o *e2bFlags) token() string {
	if !o.serve {
		return rand.Text()
	}
	secret := make([]byte, tokenSize)
	_, _ = rand.Read(secret) // which cannot fail
	return "e2b_" + hex.EncodeToString(secret)
}

// templateName is what E2B's templates are called here.
var templateName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)

func parseTemplates(list string) (map[string]e2b.Template, error) {
	templates := map[string]e2b.Template{}
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, of, _ := strings.Cut(item, "=")
		kind, value, _ := strings.Cut(of, ":")
		var t e2b.Template
		switch kind {
		case "pool":
			t.Pool = value
		case "image":
			t.Image = value
		}
		if !templateName.MatchString(name) || t == (e2b.Template{}) {
			return nil, usagef("--e2b-templates: %q is not NAME=pool:POOL or NAME=image:IMAGE", item)
		}
		if _, twice := templates[name]; twice {
			return nil, usagef("--e2b-templates: %q is there twice", name)
		}
		templates[name] = t
	}
	return templates, nil
}
