package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// Command lets a model run one executable of the sandbox, without a shell: the
// model gives only the arguments. It is safer than Bash, unless the executable
// itself starts other programs. Pass it to New directly, or embed it in a tool.
type Command struct {
	// Name is the name of the tool; empty means the last part of Path.
	Name string
	// Description is for the model; empty means a sentence with the name.
	Description string
	// Path is the executable: a path in the sandbox, or a name to look up in its
	// PATH.
	Path string
	// Args precede the arguments of the model.
	Args []string
	// Env holds more environment variables, as NAME=VALUE. The model does not
	// see them, but they are not redacted if the executable prints them: use
	// Secrets for tokens.
	Env []string
	// Secrets are added to the session's secrets in the environment of this
	// executable alone, and are redacted like them.
	Secrets map[string]secret.Provider
	// MaxTimeout is the longest timeout that the model may ask for; 0 means
	// DefaultMaxTimeout.
	MaxTimeout time.Duration
	// ReadOnly and OpenWorld are hints for the Spec.
	ReadOnly, OpenWorld bool
}

const commandSchema = `{
	"type": "object",
	"properties": {
		"args": {"type": "array", "items": {"type": "string"}, "description": "The arguments, one by one. No shell sees them: no quoting, globs, pipes or variables."},
		"cwd": {"type": "string", "description": "Directory to run the program in; the working directory by default."},
		"timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": %v, "default": %v, "description": "Seconds after which the program is ended."}
	},
	"additionalProperties": false
}`

// Spec implements Tool.
func (c Command) Spec() Spec {
	name := c.Name
	if name == "" {
		name = path.Base(c.Path)
	}
	description := c.Description
	if description == "" {
		description = fmt.Sprintf("Runs %s with these arguments, and returns what it prints to standard output and standard error, and its exit code if that is not 0.", path.Base(c.Path))
	}
	most := maxTimeout(c.MaxTimeout)
	return Spec{
		Name: name, Description: description,
		InputSchema: fmt.Appendf(nil, commandSchema, most.Seconds(), min(DefaultTimeout, most).Seconds()),
		ReadOnly:    c.ReadOnly, Destructive: !c.ReadOnly, OpenWorld: c.OpenWorld,
	}
}

func (c Command) check() error {
	if c.Path == "" {
		return errors.New("a Command has no Path")
	}
	for i, variable := range c.Env {
		if strings.IndexByte(variable, '=') <= 0 { // not quoted, since it may be a token
			return fmt.Errorf("entry %d of the Env of a Command for %s is not NAME=VALUE", i+1, c.Path)
		}
	}
	return nil
}

// secrets returns the secrets that the session has to resolve for the tool.
func (c Command) secrets() map[string]secret.Provider { return c.Secrets }

// checkSecrets fails if a Command inside another tool would run without its
// secrets, and so without redaction.
func (c Command) checkSecrets(env *Env) error {
	resolved := env.Secrets.Names()
	for name := range c.Secrets {
		if !slices.Contains(resolved, name) {
			return fmt.Errorf("secret %q of the Command for %s was not resolved: give the session the Command or a tool that embeds it", name, c.Path)
		}
	}
	return nil
}

type commandInput struct {
	Args    []string `json:"args"`
	Cwd     string   `json:"cwd"`
	Timeout float64  `json:"timeout"`
}

// Call implements Tool.
func (c Command) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[commandInput](c.Spec().Name, input)
	if problem != nil {
		return *problem, nil
	}
	if err := c.checkSecrets(env); err != nil {
		return Result{}, err
	}
	cmd := env.Sandbox.Command(ctx, c.Path, append(c.Args[:len(c.Args):len(c.Args)], in.Args...)...)
	cmd.ID, cmd.Dir, cmd.Env = env.ExecID, env.Path(in.Cwd), env.environment(c.Env)
	most := maxTimeout(c.MaxTimeout)
	if cmd.Timeout = seconds(in.Timeout); cmd.Timeout == 0 {
		cmd.Timeout = min(DefaultTimeout, most)
	}
	return run(ctx, env, cmd, in.Cwd, fmt.Sprintf("Set a longer timeout, up to %v s", most.Seconds()))
}
