package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
)

// newRoot returns a command line with two verbs: up has a flag of each kind, list has
// only the persistent flags.
func newRoot() *cobra.Command {
	root := &cobra.Command{Use: "test"}
	defineCluster(root.PersistentFlags())
	up, list := &cobra.Command{Use: "up", Run: func(*cobra.Command, []string) {}}, &cobra.Command{Use: "list", Run: func(*cobra.Command, []string) {}}
	pod := pflag.NewFlagSet("pod", pflag.ContinueOnError)
	pod.String("image", "podagent/runtime:dev", "the `IMAGE`")
	pod.String("profile", "restricted", "the profile")
	pod.String("on-drift", "say", "what to do")
	pod.String("service-account", "", "the `NAME`")
	pod.Bool("keep-workspace", false, "keep it")
	pod.Var(new(flagvalue.Heartbeat), "heartbeat", "how often")
	pod.Var(new(flagvalue.Pairs), "label", "add a label; may be repeated")
	pod.Var(new(flagvalue.Quantities), "requests", "the resources")
	pod.Var(new(flagvalue.Quantities), "limits", "the resources")
	pod.Var(new(flagvalue.Words), "main", "a command")
	pod.Var(new(flagvalue.Volumes), "volume", "mount a claim; may be repeated")
	pod.Var(new(flagvalue.PatchFile), "file", "a part of a pod")
	MarkFor(pod, "kubernetes")
	up.Flags().AddFlagSet(pod)
	up.Flags().Var(new(flagvalue.Env), "env", "add to the environment; may be repeated")
	up.Flags().String("workdir", "", "the `DIR`")
	up.Flags().Bool("rm", false, "remove it")
	Mark(up.Flags(), "env", "workdir")
	root.AddCommand(up, list)
	return root
}

func defineCluster(flags *pflag.FlagSet) {
	backend := flagvalue.NewChoice("kubernetes", "local")
	flags.Var(&backend, "backend", "where sandboxes run")
	flags.String("log-level", "off", "how much to say")
	Mark(flags)
	cluster := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	for _, name := range []string{"kubeconfig", "context", "namespace", "identity", "identity-secret"} {
		cluster.String(name, "", "the `NAME`")
	}
	cluster.Bool("in-cluster", false, "use the service account")
	MarkFor(cluster, "kubernetes")
	Exclude(cluster, "in-cluster", "kubeconfig", "context")
	Exclude(cluster, "identity", "identity-secret")
	flags.AddFlagSet(cluster)
	DefineConfig(flags)
}

// loaded returns the flags of a verb as the verb sees them, for these arguments and
// variables and this configuration file, which errors call "config.yaml".
func loaded(t *testing.T, verb, args, config string, env map[string]string) (*pflag.FlagSet, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PODAGENT_CONFIG", "config.yaml")
	for name, value := range env {
		t.Setenv(name, value)
	}
	cmd, _, err := newRoot().Find([]string{verb})
	if err == nil {
		err = cmd.ParseFlags(strings.Fields(args))
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Flags(), Load(cmd)
}

func TestFlagThenEnvironmentThenFileThenDefault(t *testing.T) {
	const config = "image: file\nprofile: baseline\nheartbeat: off\nlabel: {from: file, more: x}\nenv:\n  - FROM=file\n"
	flags, err := loaded(t, "up", "--image flag --label from=flag", config, map[string]string{
		"PODAGENT_IMAGE": "env", "PODAGENT_HEARTBEAT": "30s", "PODAGENT_LABEL": "from=env\nmore=y", "PODAGENT_PROFILE": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range []string{"image", "heartbeat", "profile", "label", "env", "on-drift"} {
		f := flags.Lookup(name)
		got[name] = f.Value.String() + " by " + Origin(f)
	}
	want := map[string]string{
		"image": "flag by --image", "label": "from=flag by --label",
		"heartbeat": "30s by PODAGENT_HEARTBEAT",
		"profile":   "baseline by config.yaml:2: profile", "env": "FROM=file by config.yaml:5: env",
		"on-drift": "say by --on-drift",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFileTakesTheValuesOfFlags(t *testing.T) {
	for _, tt := range []struct{ flag, config, want string }{
		{"heartbeat", "heartbeat: off", "off"},
		{"log-level", "log-level: off", "off"},
		{"keep-workspace", "keep-workspace: true", "true"},
		{"workdir", `workdir: "/a b"`, "/a b"},
		{"service-account", "service-account: 010", "010"},
		{"label", "label: {a: 010, b: \"\", c: off}", "a=010,b=,c=off"},
		{"label", "label:\n- a=b,c\n- d=e", "a=b,c,d=e"},
		{"label", "label: a=b", "a=b"},
		{"env", "env: [A=1, 'B=x y']", "A=1 B=x y"},
		{"requests", "requests: {cpu: 1.50, memory: 1Gi}", "cpu=1500m,memory=1Gi"},
		{"requests", "requests: cpu=2,memory=1Gi", "cpu=2,memory=1Gi"},
		{"main", "main: npm start", "npm start"},
		{"main", "main: [npm, run, a b]", "npm run a b"},
		{"volume", "volume: [data/x:/a, data/y:/b:ro]", "data/x:/a data/y:/b:ro"},
		{"limits", "requests: &r {cpu: 1}\nlimits: *r", "cpu=1"},
		{"image", "# nothing\n", "podagent/runtime:dev"},
		{"image", "---\n", "podagent/runtime:dev"},
	} {
		t.Run(tt.config, func(t *testing.T) {
			flags, err := loaded(t, "up", "", tt.config, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := flags.Lookup(tt.flag).Value.String(); got != tt.want {
				t.Errorf("%s is %q, want %q", tt.flag, got, tt.want)
			}
		})
	}
}

func TestErrorsNameTheFileTheLineAndTheKey(t *testing.T) {
	for config, want := range map[string]string{
		"\nhearbeat: 1s":            `config.yaml:2: "hearbeat" is not a setting`,
		"config: other.yaml":        `config.yaml:1: "config" is not a setting`,
		"rm: true":                  `config.yaml:1: "rm" is not a setting`,
		"image: a\nimage: b":        `config.yaml:2: "image" is given twice`,
		"heartbeat: soon":           `config.yaml:1: heartbeat: invalid argument "soon": it is neither`,
		"keep-workspace: [true]":    `config.yaml:1: keep-workspace: it is a list, and --keep-workspace takes one value`,
		"image:\n- a":               `config.yaml:1: image: it is a list`,
		"workdir: {a: b}":           `config.yaml:1: workdir: it is a map, and --workdir takes none`,
		"volume: {a: b}":            `config.yaml:1: volume: it is a map`,
		"keep-workspace: sometimes": `config.yaml:1: keep-workspace: invalid argument "sometimes"`,
		"image:":                    `config.yaml:1: image: it is blank`,
		`image: " "`:                `config.yaml:1: image: it is blank`,
		"label: {a: }":              `config.yaml:1: label: "a" has no single value`,
		"label:\n- [a]":             `config.yaml:1: label: line 2 is not a single value`,
		"label: [a]":                `config.yaml:1: label: invalid argument "a": it is not KEY=VALUE`,
		"image: a\n---\nimage: b":   `config.yaml: there is more than one document`,
		"- image":                   `config.yaml:1: it has no keys`,
		"image: [":                  `config.yaml: yaml: line 1`,
		"requests: {cpu: much}":     `config.yaml:1: requests: invalid argument "cpu=much": "much" is not a quantity`,
	} {
		t.Run(config, func(t *testing.T) {
			_, err := loaded(t, "up", "", config, nil)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestVerbsIgnoreOtherSettings(t *testing.T) {
	// Not even wrong values matter.
	if _, err := loaded(t, "list", "", "heartbeat: soon", map[string]string{"PODAGENT_VOLUME": "nonsense"}); err != nil {
		t.Error(err)
	}
	flags, err := loaded(t, "up", "--backend local", "heartbeat: soon\nworkdir: /w", map[string]string{"PODAGENT_FILE": "/nowhere", "PODAGENT_NAMESPACE": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if Given(flags.Lookup("namespace")) || flags.Lookup("workdir").Value.String() != "/w" {
		t.Error("settings of pods are not ignored, or others were ignored")
	}
}

func TestBackendOfTheFlagSaysWhichSettingsAreIgnored(t *testing.T) {
	for args, want := range map[string]bool{"": false, "--backend kubernetes": true} {
		flags, err := loaded(t, "up", args, "backend: local\nimage: x", nil)
		if err != nil || Given(flags.Lookup("image")) != want {
			t.Errorf("with %q: the image is given: %v, %v", args, !want, err)
		}
	}
}

func TestSettingsThatExcludeEachOther(t *testing.T) {
	for _, tt := range []struct{ args, config, env, want string }{
		{"--in-cluster", "kubeconfig: file\ncontext: c", "", "<nil>"},
		{"--kubeconfig flag", "", "PODAGENT_IN_CLUSTER=true", "<nil>"},
		{"", "in-cluster: true", "PODAGENT_CONTEXT=c", "<nil>"},
		{"", "in-cluster: false\nkubeconfig: file", "", "<nil>"},
		{"--identity a", "identity-secret: b", "", "<nil>"},
		{"", "in-cluster: true\nkubeconfig: file", "", "config.yaml:1: in-cluster and config.yaml:2: kubeconfig exclude each other"},
		{"--in-cluster --context c", "", "", "--in-cluster and --context exclude each other"},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			env := map[string]string{}
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				env[name] = value
			}
			flags, err := loaded(t, "list", tt.args, tt.config, env)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckExclusions(flags); fmt.Sprint(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestConfigurationFileThatCannotBeRead(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxConfig+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, env, want string }{
		{"--config nowhere", "", "cannot read the configuration file (--config): open nowhere: no such file"},
		{"", "nowhere", "cannot read the configuration file (PODAGENT_CONFIG): open nowhere: no such file"},
		{"--config .", "", "cannot read the configuration file (--config): read .: is a directory"},
		{"--config " + large, "", "cannot read the configuration file (--config): " + large + " is larger than 1 MiB"},
		{"--config=", "", "--config must not be blank"},
		{"--config /dev/null", "nowhere", ""},
	} {
		_, err := loaded(t, "list", tt.args, "", map[string]string{"PODAGENT_CONFIG": tt.env})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestDefaultConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	noFile := map[string]string{"PODAGENT_CONFIG": ""}
	if _, err := loaded(t, "list", "", "", noFile); err != nil {
		t.Errorf("there is none: %v", err)
	}
	path := filepath.Join(dir, "podagent", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("namespace: mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags, err := loaded(t, "list", "", "", noFile)
	if got := flags.Lookup("namespace").Value.String(); err != nil || got != "mine" {
		t.Errorf("the namespace is %q, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("namspace: mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loaded(t, "list", "", "", noFile); err == nil || !strings.HasPrefix(err.Error(), path+`:1: "namspace" is not a setting`) {
		t.Errorf("a wrong key: %v", err)
	}
}
