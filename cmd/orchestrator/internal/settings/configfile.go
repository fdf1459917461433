package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
)

// maxConfig bounds the configuration file, in bytes: far more than all settings
// take, and small enough to read if the path is a mistake.
const maxConfig = 1 << 20

// configFile is the content of a configuration file.
type configFile struct {
	path    string
	entries map[string]entry // by the name of the setting
}

type entry struct {
	line  int // of the key
	value *yaml.Node
}

// configFlag is the flag that names the file.
const configFlag = "config"

// DefineConfig defines the flag --config, which names the configuration file.
func DefineConfig(flags *pflag.FlagSet) {
	flags.String(configFlag, "", "the `FILE` with settings that neither a flag nor a variable of the environment gives (default podagent/config.yaml in the configuration directory, if it is there)")
}

// readConfig reads the file that --config or its variable names, or the default
// one if it is there.
func readConfig(cmd *cobra.Command) (*configFile, error) {
	flag := cmd.Flags().Lookup(configFlag)
	path, by := flag.Value.String(), "--"+configFlag
	if flag.Changed && path == "" {
		return nil, errors.New("--config must not be blank")
	} else if !flag.Changed {
		by = variable(configFlag)
		path = os.Getenv(by)
	}
	named := path != ""
	if !named {
		by, path = "the default", defaultConfig()
	}
	data, err := readConfigFile(path)
	if !named && (path == "" || errors.Is(err, fs.ErrNotExist)) {
		return &configFile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration file (%s): %w", by, err)
	}
	return parseConfig(path, data, Of(cmd.Root()))
}

// defaultConfig returns the path of the default file, or "" if there is no
// configuration directory.
func defaultConfig() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "podagent", "config.yaml")
}

func readConfigFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxConfig>>20)
	}
	return data, err
}

// parseConfig parses a file. Its keys must be names of these settings.
func parseConfig(path string, data []byte, settings *pflag.FlagSet) (*configFile, error) {
	c := &configFile{path: path, entries: map[string]entry{}}
	var document, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&document); err == io.EOF {
		return c, nil
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if documents.Decode(&second) != io.EOF {
		return nil, fmt.Errorf("%s: there is more than one document in it", path)
	}
	top := document.Content[0]
	if top.Tag == "!!null" {
		return c, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: it has no keys: write \"image: ...\" for --image", path, top.Line)
	}
	for i := 0; i < len(top.Content); i += 2 {
		if err := c.add(top.Content[i], top.Content[i+1], settings); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, top.Content[i].Line, err)
		}
	}
	return c, nil
}

func (c *configFile) add(key, value *yaml.Node, settings *pflag.FlagSet) error {
	_, twice := c.entries[key.Value]
	switch {
	case settings.Lookup(key.Value) == nil:
		return fmt.Errorf("%q is not a setting: \"orchestrator settings\" lists all", key.Value)
	case twice:
		return fmt.Errorf("%q is given twice", key.Value)
	}
	c.entries[key.Value] = entry{key.Line, resolve(value)}
	return nil
}

// source is the source of the file's values.
func (c *configFile) source(f *pflag.Flag) ([]string, string, error) {
	e, ok := c.entries[f.Name]
	if !ok {
		return nil, "", nil
	}
	place := fmt.Sprintf("%s:%d: %s", c.path, e.line, f.Name)
	values, err := flagValues(f, e.value)
	if err != nil {
		err = fmt.Errorf("%s: %w", place, err)
	}
	return values, place, err
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// pairFlag matches the help's name for the value of a flag that takes pairs.
var pairFlag = regexp.MustCompile(`^[A-Z]+=`)

// flagValues returns the flag's arguments for a value in the file. It takes scalars
// as they are written, because "off" and 010 mean other things in YAML than for a
// flag.
func flagValues(f *pflag.Flag, n *yaml.Node) ([]string, error) {
	name, _ := pflag.UnquoteUsage(f)
	_, isCommand := f.Value.(*flagvalue.Words)
	pairs := pairFlag.MatchString(name)
	switch {
	case n.Kind == yaml.ScalarNode:
		return scalars(n)
	case n.Kind == yaml.MappingNode && pairs:
		return mapped(n)
	case n.Kind == yaml.SequenceNode && (mayBeRepeated(f) || pairs):
		return scalars(n.Content...)
	case n.Kind == yaml.SequenceNode && isCommand:
		command, err := scalars(n.Content...)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(command)
		return []string{string(text)}, err
	case n.Kind == yaml.SequenceNode:
		return nil, fmt.Errorf("it is a list, and --%s takes one value", f.Name)
	}
	return nil, fmt.Errorf("it is a map, and --%s takes none", f.Name)
}

func scalars(nodes ...*yaml.Node) ([]string, error) {
	var values []string
	for _, n := range nodes {
		switch n = resolve(n); {
		case n.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d is not a single value", n.Line)
		case strings.TrimSpace(n.Value) == "" || n.Tag == "!!null":
			return nil, errors.New("it is blank: leave it out, or give a value")
		}
		values = append(values, n.Value)
	}
	return values, nil
}

// mapped returns the pairs of a map. A value may be empty, but it must be present:
// a missing one may be a mistake.
func mapped(n *yaml.Node) ([]string, error) {
	var values []string
	for i := 0; i < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
			return nil, fmt.Errorf("%q has no single value: write \"\" for an empty one", key.Value)
		}
		values = append(values, key.Value+"="+value.Value)
	}
	return values, nil
}
